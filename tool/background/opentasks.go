package background

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure"
)

// maxOpenLines is how many lines OpenTasks writes at most.
const maxOpenLines = 20

// OpenTasks writes down the background work of a session that is not over for the model: what lives, then what has
// ended and was not told yet. It is put back into a conversation that was compacted, so that the ids are not lost
// (DL13). It tells no times, so that the same tasks are the same text and a prompt's cache stays good.
//
// tasks stand in the order of their creation, and may hold others. Without open tasks it is empty. What exceeds 20
// lines is counted; list_tasks shows it.
func OpenTasks(tasks []perdure.Task) string {
	var live, over []string
	for _, t := range tasks {
		switch {
		case t.Lane == perdure.Foreground: // its call stands in the conversation and waits for its result
		case t.State.Live():
			live = append(live, openLine(t))
		case undelivered(t):
			over = append(over, openLine(t))
		}
	}
	lines := append(live, over...)
	if len(lines) == 0 {
		return ""
	}
	if most := maxOpenLines - 1; len(lines) > most {
		left := len(lines) - (most - 1)
		lines = append(lines[:most-1:most-1], fmt.Sprintf("- and %d more: call list_tasks", left))
	}
	return "Open background tasks:\n" + strings.Join(lines, "\n")
}

// openLine is one task of the block.
func openLine(t perdure.Task) string {
	line := "- " + string(t.ID)
	if t.Run != "" {
		line += " (" + string(t.Run) + ")"
	}
	line += fmt.Sprintf(" %s: %s", t.Tool, t.State)
	switch {
	case t.InputRequest != nil:
		line += " for " + string(t.InputRequest.ID)
	case t.State.Terminal():
		line += ", not read yet"
	}
	return line
}
