"""One small program for each probe. Each is run by path in a fresh process, and its last line is a JSON answer."""
