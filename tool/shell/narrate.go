package shell

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

var _ tool.ResultNarrator = (*Bash)(nil)

// shownCommandChars is how much of a command a sentence shows.
const shownCommandChars = 120

// Narrate implements tool.Narrator.
func (b *Bash) Narrate(call tool.Call, phase tool.Phase, _ string) string {
	command := shownCommand(call)
	switch {
	case command == "":
		return ""
	case phase == tool.PhaseStarted:
		return "Running " + command
	case phase == tool.PhaseFailed:
		return "Could not run " + command
	}
	return "Ran " + command
}

// NarrateResult implements tool.ResultNarrator.
func (b *Bash) NarrateResult(call tool.Call, result perdure.ToolResult, _ string) string {
	command := shownCommand(call)
	switch {
	case command == "", result.ErrorKind == perdure.ErrorCanceled, result.ErrorKind == perdure.ErrorInterrupted,
		result.ErrorKind == perdure.ErrorUnknown:
		return ""
	case result.IsError():
		return "Could not run " + command + ": " + result.Error
	}
	var got struct {
		ExitCode *int `json:"exit_code"`
		TimedOut bool `json:"timed_out"`
	}
	switch err := perdure.DecodeKnownJSON(result.Result, &got); {
	case err != nil || got.ExitCode == nil:
		return ""
	case got.TimedOut:
		return "Ran " + command + ": timed out"
	case *got.ExitCode != 0:
		return fmt.Sprintf("Ran %s: exit %d", command, *got.ExitCode)
	}
	return "Ran " + command
}

// shownCommand returns the command of a call on one line; empty if the arguments cannot be read.
func shownCommand(call tool.Call) string {
	args, err := tool.Decode[arguments](call)
	if err != nil {
		return ""
	}
	command := []rune(strings.Join(strings.Fields(args.Command), " "))
	if len(command) > shownCommandChars {
		return string(command[:shownCommandChars]) + "…"
	}
	return string(command)
}
