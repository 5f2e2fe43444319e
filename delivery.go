package perdure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// delivery makes the notification that brings one ended task home.
func (s *Session) delivery(m Moment, task Task) TaskDelivered {
	id := DeriveID[MessageID](m.Secret, m.Now, string(task.ID), fmt.Sprint(task.Attempt), string(task.State))
	message := Message{ID: id, Role: RoleNotification, Parts: []Part{{Type: PartText, Text: task.Notification(), Untrusted: true}}, At: m.Now}
	return TaskDelivered{Message: message, TaskIDs: []TaskID{task.ID}, Wake: task.Wake}
}

// Notification is the text by which the model learns of the task's end (DL4). It is data of a tool, not an
// instruction of a person; the model's adapter marks it so.
func (t Task) Notification() string {
	var b strings.Builder
	switch t.State {
	case TaskUnknown:
		b.WriteString("Background run ended with unknown outcome.")
	case TaskSucceeded:
		b.WriteString("Background run completed.")
	default:
		fmt.Fprintf(&b, "Background run %s.", t.State)
	}
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "\n- %s: %s", name, value)
		}
	}
	line("run_id", string(t.Run))
	line("title", oneLine(t.DisplayName, 1000))
	line("tool", t.Tool)
	line("summary", SummaryLine(t.Summary))
	line("result_path", t.ResultPath)
	line("log_path", t.LogPath)
	if t.FromCall() || t.Kind == KindSubagent {
		line("call_id", string(t.Call))
		line("result", t.Result) // compact JSON, as ShortResult makes it: its white space stands in texts, and stays
	}
	if t.State == TaskUnknown {
		line("note", "it may or may not have happened; check before repeating it")
	}
	return b.String()
}

// MaxResultChars is how much of a result stands in a notification (DL4).
const MaxResultChars = 4096

// ShortResult is a result as it stands in a notification: compact JSON, cut at a character, and then with where the whole of
// it stands, or without a path how long that is (DL4). Empty: it is no JSON.
func ShortResult(result json.RawMessage, path string) string {
	var compact bytes.Buffer
	if json.Compact(&compact, result) != nil {
		return ""
	}
	text := compact.String()
	if cut(text, MaxResultChars) == text {
		return text
	}
	note := " … the whole is in " + path
	if path == "" {
		note = fmt.Sprintf("… (%d bytes in all)", len(text))
	}
	return cut(text, MaxResultChars-utf8.RuneCountInString(note)) + note
}

// oneLine folds white space and cuts to n characters.
func oneLine(text string, n int) string {
	return cut(strings.Join(strings.Fields(text), " "), n)
}
