"""The look of the page: one narrow column, dark on white, nothing fetched from anywhere."""

CSS = """
:root{--ink:#1b1f24;--soft:#57606a;--line:#d8dee4;--tint:#f6f8fa;--good:#116329;--doubt:#7d4e00;--bad:#a40e26}
*{box-sizing:border-box}
body{margin:0;background:#fff;color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif}
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.5rem 4rem}
h1{font-size:2rem;line-height:1.2;margin:.1rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.3rem;margin:0 0 .6rem}
p{margin:.4rem 0}
a{color:#0550ae}
code{font:.88em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;background:var(--tint);
padding:.1em .35em;border-radius:3px;overflow-wrap:anywhere}
.kicker{margin:0;color:var(--soft);font-size:.85rem;letter-spacing:.06em;text-transform:uppercase}
.none{color:var(--soft)}.good{color:var(--good)}.doubt{color:var(--doubt)}.bad{color:var(--bad)}
.verdict{border-left:5px solid;padding:.7rem 1rem;background:var(--tint);font-size:1.1rem;font-weight:600;
margin:0 0 1rem}
.strip{display:grid;grid-template-columns:repeat(4,1fr);gap:.75rem;list-style:none;margin:0 0 1rem;padding:0}
.strip li{border:1px solid var(--line);border-radius:6px;padding:.5rem .9rem;font-size:.9rem}
.strip b{display:block;font-size:1.7rem;line-height:1.2;font-variant-numeric:tabular-nums}
.where{color:var(--soft)}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;border-top:1px solid var(--line);margin-top:1rem;padding-top:.7rem}
nav a{text-decoration:none}
section{border-top:1px solid var(--line);margin-top:2rem;padding-top:1.5rem}
table{border-collapse:collapse;width:100%;font-size:.88rem;margin:.2rem 0 1.1rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.4rem 0}
th,td{text-align:left;vertical-align:top;padding:.35rem .7rem;border-bottom:1px solid var(--line);
overflow-wrap:break-word}.card td{overflow-wrap:anywhere}
thead th{border-bottom:2px solid var(--ink);white-space:nowrap}
table.mindport tbody tr:nth-child(odd){background:var(--tint)}
.card td:nth-child(1){white-space:nowrap;width:8.5rem}.card td:nth-child(2){width:30%}
.card td:nth-child(3){width:32%}
.card tbody th{padding-top:1rem;color:var(--soft);font-weight:600}
.state,td.bad{font-weight:600}
small{color:var(--soft);border:1px solid var(--line);border-radius:3px;padding:0 .35em;white-space:nowrap}
.n{white-space:nowrap}
.wide{overflow-x:auto}.wide td{max-width:20rem}
details{margin:0 0 .5rem}summary{cursor:pointer;color:#0550ae;font-size:.9rem;padding:.2rem 0}
details caption{display:none}
figure{margin:1rem 0}figure img{max-width:100%;height:auto}
dl{display:grid;grid-template-columns:6rem 1fr;gap:.25rem 1rem;font-size:.85rem;color:var(--soft);margin:1rem 0 0}
dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}
footer{border-top:1px solid var(--line);margin-top:2.5rem;padding-top:1rem;font-size:.85rem;color:var(--soft)}
@media (max-width:40rem){.strip{grid-template-columns:repeat(2,1fr)}dl{grid-template-columns:1fr}}
@media print{main{max-width:none;padding:0}body{font-size:11pt}tr,figure{break-inside:avoid}h2{break-after:avoid}
summary,nav{display:none}details::details-content{content-visibility:visible;height:auto}details caption{
display:table-caption}thead{display:table-header-group}}
"""
