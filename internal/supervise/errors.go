package supervise

import "errors"

// Kinds of errors; ask with errors.Is.
var (
	// NotStarted means that the command did not run and never will in this directory. Any class of call may run again.
	NotStarted = errors.New("the command was not started")
	// Spent means that the directory had its one start, or was revoked: take another directory.
	Spent = errors.New("the run directory was used before")
	// Vanished means that the supervisor died without leaving an exit record: how the command ended is not known.
	Vanished = errors.New("the supervisor died and left no exit record")
	// Running means that the command lives: what belongs to it cannot be removed.
	Running = errors.New("the command is running")
	// Corrupt means that a file of the run directory cannot be believed. The error's text names the file.
	Corrupt = errors.New("the run directory is damaged")
	// Unsupported means that this system cannot supervise; the error's text says what it lacks.
	Unsupported = errors.New("commands cannot be supervised on this system")
)
