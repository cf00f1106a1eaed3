"""The C++ library is compiled once, by whoever comes first, or its absence is said."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import textwrap
import types

import pytest

from mindport.errors import BackendError, FileError
from mindport.model import kernels
from mindport.model.kernels import library as module
from mindport.model.kernels.library import library, unavailable


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache, small sources, and nothing remembered."""
    sources = tmp_path / "cpp"
    sources.mkdir()
    (sources / "one.cc").write_text('extern "C" int one() { return 1; }\n')
    monkeypatch.setattr(module, "SOURCES", sources)
    monkeypatch.setenv("MINDPORT_CACHE", str(tmp_path / "cache"))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    library.cache_clear()
    unavailable.cache_clear()


def again():
    forget()
    return library()


def counting(tmp_path, monkeypatch, extra: str = ""):
    """A compiler that counts how often it compiles; `extra` runs before it does."""
    log, script = tmp_path / "log", tmp_path / "compiler"
    script.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) echo x >> {log}; {extra or ":"};; esac\nexec g++ "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return lambda: len(log.read_text().split()) if log.exists() else 0


def test_it_is_compiled_once(fresh, monkeypatch):
    compiled = counting(fresh, monkeypatch)
    first = library()
    assert first.is_file()
    assert again() == first
    assert compiled() == 1


def test_another_source_flag_or_compiler_is_another_library(fresh, monkeypatch):
    names = {library().name}
    (module.SOURCES / "one.cc").write_text('extern "C" int one() { return 2; }\n')
    names.add(again().name)
    (module.SOURCES / "one.h").write_text("// also what is included\n")
    names.add(again().name)
    monkeypatch.setattr(module, "FLAGS", (*module.FLAGS, "-DX"))
    names.add(again().name)
    monkeypatch.setenv("CXX", "g++ -mno-avx512f")
    names.add(again().name)
    monkeypatch.setattr(module, "_cpu", lambda: "another")
    names.add(again().name)
    assert len(names) == 6


def test_processes_that_start_together_compile_it_once(fresh, monkeypatch):
    compiled = counting(fresh, monkeypatch, "sleep 1")
    program = textwrap.dedent(f"""
        import pathlib
        from mindport.model.kernels import library
        library.SOURCES = pathlib.Path({str(module.SOURCES)!r})
        print(library.library())
    """)
    running = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    paths = {process.communicate(timeout=300)[0].splitlines()[-1] for process in running}
    assert len(paths) == 1
    assert compiled() == 1


def test_a_compiler_that_is_killed_leaves_nothing_that_loads(fresh, monkeypatch):
    counting(fresh, monkeypatch, "kill -9 $$")
    with pytest.raises(BackendError, match="refuses"):
        library()
    assert not list((fresh / "cache").rglob("*.so"))
    monkeypatch.delenv("CXX")
    assert again().is_file()


@pytest.mark.parametrize("variable", ["PATH", "CXX"])
def test_no_compiler_is_said_and_the_reference_computes(fresh, monkeypatch, variable):
    monkeypatch.setenv(variable, str(fresh))
    with pytest.raises(BackendError, match="there is none") as error:
        library()
    assert "plain operators" in str(error.value)
    assert unavailable().startswith("the C++ kernels need a compiler")
    kernel = kernels.gelu(approximate=True)
    assert type(kernel).__name__ == "Reference"
    choice = kernels.choices()[-1]
    assert (choice.kernel, choice.path) == ("gelu", "reference")
    assert "a C++ compiler" in choice.reason


def test_a_source_that_does_not_compile_is_one_line(fresh, compiler):
    (module.SOURCES / "one.cc").write_text("int one() { return nonsense; }\n")
    with pytest.raises(BackendError, match="refuses the kernels") as error:
        library()
    assert "nonsense" in error.value.got
    assert "\n" not in unavailable()


def test_a_cache_that_cannot_be_written_is_said(fresh, monkeypatch, compiler):
    blocked = fresh / "file"
    blocked.write_text("")
    monkeypatch.setenv("MINDPORT_CACHE", str(blocked / "below"))
    assert unavailable() == "the cache of compiled kernels cannot be written (Not a directory)"
    with pytest.raises(FileError, match="cannot be written") as error:
        library()
    assert "MINDPORT_CACHE" in str(error.value)


def test_a_cache_on_a_disk_without_locks_is_said(fresh, monkeypatch, compiler):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert unavailable() == "the cache of compiled kernels cannot be written (No locks available)"


@pytest.mark.parametrize("damage", [lambda whole: whole[:1000], lambda whole: b"", lambda whole: b"x" + whole[1:]])
def test_a_damaged_library_is_compiled_again(fresh, compiler, damage):
    path = library()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert again() == path
    assert path.read_bytes()[:4] == b"\x7fELF"
    assert len(path.read_bytes()) == len(whole)


def test_a_library_of_another_user_is_compiled_again(fresh, monkeypatch):
    compiled = counting(fresh, monkeypatch)
    library()
    monkeypatch.setattr(module, "_trusted", lambda: {fresh.stat().st_uid + 1})
    again()
    assert compiled() == 2


def test_what_the_compiler_makes_is_loaded_before_it_is_kept(fresh, monkeypatch):
    script = fresh / "compiler"
    script.write_text('#!/bin/sh\nfor last; do :; done\ncase "$*" in *-shared*) echo nonsense > "$last";; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(BackendError, match="does not load"):
        library()
    assert not list((fresh / "cache").rglob("*.so"))


def test_a_compiler_that_does_not_speak_utf_8_is_quoted(fresh, monkeypatch):
    script = fresh / "compiler"
    script.write_text("#!/bin/sh\nprintf 'error: \\261' >&2; exit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(BackendError, match="refuses"):
        library()


def test_a_disk_that_fills_up_is_the_reason_and_not_the_exit_code(fresh, monkeypatch):
    script = fresh / "compiler"
    said = "ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status"
    script.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) echo "{said}" >&2; exit 1;; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert "No space left" in unavailable()


def test_a_place_from_which_nothing_can_be_loaded_is_said(fresh, monkeypatch, compiler):
    monkeypatch.setenv("MINDPORT_CACHE", str(fresh / "a:b"))
    with pytest.raises(FileError, match="colon"):
        library()
    forget()
    monkeypatch.setenv("MINDPORT_CACHE", str(fresh / "cache"))
    library()
    monkeypatch.setattr(module.os, "statvfs", lambda _: types.SimpleNamespace(f_flag=module.os.ST_NOEXEC))
    assert (forget(), unavailable())[1].endswith("noexec")


def test_a_lock_that_is_a_link_leaves_the_file_behind_it_alone(fresh, compiler):
    path = library()
    lock, victim = path.with_suffix(".lock"), fresh / "victim"
    victim.write_text("content")
    lock.unlink()
    lock.symlink_to(victim)
    path.unlink()
    assert again().is_file()
    assert victim.read_text() == "content"
