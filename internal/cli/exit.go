package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// The exit codes (C4). They are a promise; help exit-codes lists them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitDenied      = 4
	exitConflict    = 5
	exitUnreachable = 6
	exitTimeout     = 7
	exitFailed      = 8
	exitApproval    = 9
	exitStorage     = 74
	exitInterrupted = 130
)

// meaning is what an exit code says.
type meaning struct {
	code int
	says string // lines
}

// meanings is the promise of C4, for help exit-codes.
func meanings() []meaning {
	return []meaning{
		{exitOK, "it worked"},
		{exitError, "an error"},
		{exitUsage, "the command line, or an argument in it, is wrong"},
		{exitNotFound, "there is no such thing"},
		{exitDenied, "not allowed: the token of a server, or the key of a provider, is missing or wrong"},
		{exitConflict, "something stands in the way: the data directory is held by another process,\nan id is ambiguous, a cap is reached, a budget is used up, an outcome is known already"},
		{exitUnreachable, "not now: try again"},
		{exitTimeout, "a wait timed out"},
		{exitFailed, "the work that was waited for failed, was cancelled, or has an unknown outcome"},
		{exitApproval, "an approval or another word of a person is needed, and nobody can be asked: there is\nno terminal, --no-input was given, the question was left open, or a person or the\nsoft limit of a budget paused the session"},
		{exitStorage, "the store cannot promise durability: the disk is full, or cannot be written"},
		{exitInterrupted, "ended by Ctrl-C or SIGTERM; work in the background is left for the next run.\nA server that ends so gives 0; a second signal ends every command at once, with this code"},
	}
}

// exitCodes lists the codes for people.
func exitCodes() string {
	var lines strings.Builder
	for _, m := range meanings() {
		fmt.Fprintf(&lines, "%-3d  %s\n", m.code, strings.ReplaceAll(m.says, "\n", "\n     "))
	}
	return lines.String()
}

// errInterrupted ends the context of a command that was told to stop by Ctrl-C or SIGTERM.
var errInterrupted error = exit(exitInterrupted)

// exit is an exit code as an error, of a command that has said itself what there was to say.
type exit int

func (e exit) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// fault is an error for a person: what happened, then what to do (C14).
type fault struct {
	err  error  // the kind, or the cause; nil: code counts
	code int    // zero: by the kind of err
	what string //
	todo string // lines; empty: what says it
}

func (f *fault) Error() string { return f.what }

func (f *fault) Unwrap() error { return f.err }

// misuse is a fault of whoever typed the command.
func misuse(what, todo string) error { return &fault{code: exitUsage, what: what, todo: todo} }

// exitCode is the one place where an error becomes an exit code (C4, rule 19).
func exitCode(err error) int {
	var code exit
	var f *fault
	var refused interface{ Unauthorized() bool } // of whoever answers from afar
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &refused) && refused.Unauthorized():
		return exitDenied
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &f) && f.code != 0:
		return f.code
	}
	for _, known := range []struct {
		kind error
		code int
	}{
		{perdure.Storage, exitStorage},
		{perdure.NotFound, exitNotFound},
		{perdure.Conflict, exitConflict},
		{perdure.Limit, exitConflict},
		{perdure.Invalid, exitUsage},
		{perdure.Unavailable, exitUnreachable},
		{perdure.Denied, exitDenied},
		{perdure.UnknownOutcome, exitFailed},
		{context.DeadlineExceeded, exitTimeout},
		{context.Canceled, exitInterrupted},
	} {
		if errors.Is(err, known.kind) {
			return known.code
		}
	}
	return exitError
}
