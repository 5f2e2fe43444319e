package perdure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/shorten"
)

// Delivery says how the result of a task reaches its session.
type Delivery string

// The ways of delivery.
const (
	ToLoop Delivery = "to_loop" // it enters the transcript, once
	Manual Delivery = "manual"  // the host drains it
)

// Wake says what a delivery does to an idle session.
type Wake string

// The effects of a delivery on an idle session.
const (
	WakeNone     Wake = "none"
	WakeNotify   Wake = "notify"
	WakeContinue Wake = "continue"
)

// Valid reports whether d is a delivery; the zero value counts.
func (d Delivery) Valid() bool { return d == "" || d == ToLoop || d == Manual }

// Valid reports whether w is a wake; the zero value counts.
func (w Wake) Valid() bool {
	return w == "" || w == WakeNone || w == WakeNotify || w == WakeContinue
}

// Delivered says how a task's result was delivered.
type Delivered string

// The states of a delivery.
const (
	NotDelivered      Delivered = "no"
	DeliveredInjected Delivered = "injected"
	DeliveredRead     Delivered = "read"    // the model read it before it entered the transcript
	DeliveredDrained  Delivered = "drained" // the host drained it
)

// delivery returns the notification that delivers an ended task.
func (s *Session) delivery(m Moment, task Task) TaskDelivered {
	id := DeriveID[MessageID](m.Secret, m.Now, string(task.ID), fmt.Sprint(task.Attempt), string(task.State))
	message := Message{ID: id, Role: RoleNotification, Parts: []Part{{Type: PartText, Text: task.Notification(), Untrusted: true}}, At: m.Now}
	return TaskDelivered{Message: message, TaskIDs: []TaskID{task.ID}, Wake: task.Wake}
}

// Notification is the text that reports the end of the task to the model. It is data from a tool,
// not an instruction from a person; the part that carries it is marked as untrusted.
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
	line("title", shorten.Line(t.DisplayName, 1000))
	line("tool", t.Tool)
	line("summary", SummaryLine(t.Summary))
	line("result_path", t.ResultPath)
	line("log_path", t.LogPath)
	if t.FromCall() || t.Kind == KindSubagent {
		line("call_id", string(t.Call))
		line("result", t.Result) // already on one line: compact JSON from ShortResult
	}
	if t.State == TaskUnknown {
		line("note", "it may or may not have happened; check before repeating it")
	}
	return b.String()
}

// MaxResultChars is the length in characters to which a result is cut in a notification.
const MaxResultChars = 4096

// ShortResult returns a result for a notification: compact JSON, cut at a character, followed by
// path, where the full result is, or by its length if path is empty. The text is empty if result is
// not valid JSON.
func ShortResult(result json.RawMessage, path string) string {
	var compact bytes.Buffer
	if json.Compact(&compact, result) != nil {
		return ""
	}
	text := compact.String()
	if shorten.Chars(text, MaxResultChars) == text {
		return text
	}
	note := " … the whole is in " + path
	if path == "" {
		note = fmt.Sprintf("… (%d bytes in all)", len(text))
	}
	return shorten.Chars(text, MaxResultChars-utf8.RuneCountInString(note)) + note
}
