package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// The exit codes. They are stable; perdure help exit-codes lists them.
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

// exitCodeMeaning describes an exit code.
type exitCodeMeaning struct {
	code int
	text string // lines
}

// meanings lists all exit codes for perdure help exit-codes.
func meanings() []exitCodeMeaning {
	return []exitCodeMeaning{
		{exitOK, "success"},
		{exitError, "an error without a code of its own"},
		{exitUsage, "the command line is wrong"},
		{exitNotFound, "not found"},
		{exitDenied, "permission denied: the token of the server or the key of the provider is missing or wrong"},
		{exitConflict, "conflict: another process holds the data directory, an id is ambiguous,\na limit is reached, a budget is used up, or an outcome is already known"},
		{exitUnreachable, "unavailable: try again"},
		{exitTimeout, "timed out"},
		{exitFailed, "the work that the command waited for failed, was canceled, or has an unknown outcome"},
		{exitApproval, "an approval or another decision is needed and cannot be asked for: there is no\nterminal, --no-input was given, the question was left open, or the session was\npaused by a user or by the soft limit of a budget"},
		{exitStorage, "the store cannot write durably: the disk is full or not writable"},
		{exitInterrupted, "stopped by Ctrl-C or SIGTERM; the next run continues the background work. A server\nthat stops cleanly exits with 0. A second signal stops any command at once, with this code"},
	}
}

// exitCodes formats the exit codes for a terminal.
func exitCodes() string {
	var lines strings.Builder
	for _, m := range meanings() {
		fmt.Fprintf(&lines, "%-3d  %s\n", m.code, strings.ReplaceAll(m.text, "\n", "\n     "))
	}
	return lines.String()
}

// errInterrupted ends the context of a command that Ctrl-C or SIGTERM stops.
var errInterrupted error = exit(exitInterrupted)

// exit is an exit code as an error. The command has already printed what there was to say.
type exit int

func (e exit) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// userError is an error for a user: what happened, then what to do.
type userError struct {
	err     error  // the kind, or the cause; nil: code decides
	code    int    // zero: the kind of err decides
	message string //
	hint    string // plural lines are allowed; empty: the kind of err decides
}

func (f *userError) Error() string { return f.message }

func (f *userError) Unwrap() error { return f.err }

// usageError returns the error of a wrong command line.
func usageError(what, todo string) error {
	return &userError{code: exitUsage, message: what, hint: todo}
}

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	var code exit
	var f *userError
	var refused interface{ Unauthorized() bool } // an error of a remote server
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
