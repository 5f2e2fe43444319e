package supervise

import "errors"

// The kinds of errors; compare with errors.Is.
var (
	// NotStarted means that the command did not run and never will in this directory. A call of any
	// effect class may run again.
	NotStarted = errors.New("the command was not started")
	// Spent means that the directory's ticket was used or revoked before: use a new directory.
	Spent = errors.New("the run directory was used before")
	// Vanished means that the supervisor died without an exit record: how the command ended is not
	// known.
	Vanished = errors.New("the supervisor died and left no exit record")
	// Running means that the command is running, so its directory cannot be removed.
	Running = errors.New("the command is running")
	// Corrupt means that a file of the run directory is damaged. The error's text names the file.
	Corrupt = errors.New("the run directory is damaged")
	// Unsupported means that this system cannot supervise commands; the error's text says what it
	// lacks.
	Unsupported = errors.New("commands cannot be supervised on this system")
)
