package background

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// scheduled is the answer to a run that is to come (BG9).
type scheduled struct {
	Created bool   `json:"created"`
	Status  string `json:"status"`
	Title   string `json:"title"`
	Tool    string `json:"tool"`
	Signal  bool   `json:"signal_on_completion"`
	tool.ShownSchedule
}

// schedule makes the schedule with its monitor (rows 13 to 16, 21).
func schedule(ctx context.Context, o order, env tool.Env) tool.Result {
	s := o.when
	s.Title, s.Description = o.title, o.description()
	s.Action = perdure.ScheduleAction{Tool: o.name, Args: o.raw, Signal: o.signal}
	made, err := env.Plans.CreateSchedule(ctx, tool.ScheduleOrder{Schedule: s, Monitor: true})
	if refused, ok := tool.RefusedSchedule(err); ok {
		return refused
	}
	if err != nil {
		return failed(ctx, err)
	}
	return tool.Success(scheduled{Created: true, Status: "scheduled", Title: o.title, Tool: o.name, Signal: o.signal, ShownSchedule: tool.ShowSchedule(made)})
}

// description is what people read of a monitor; it fires from its record (BG7).
func (o order) description() string {
	payload := struct {
		Tool   string          `json:"tool"`
		Title  string          `json:"title"`
		Signal bool            `json:"signal_on_completion"`
		Args   json.RawMessage `json:"args"`
	}{o.name, o.title, o.signal, o.raw}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(payload) // its arguments were checked
	whole := "Monitor: " + o.title + "\n\nThis scheduled monitor fired. Start the background run now.\n\nspawn_background payload:\n" + strings.TrimSpace(text.String())
	return strings.ToValidUTF8(whole[:min(len(whole), maxDescription)], "")
}

// maxDescription is how much of the text a schedule keeps.
const maxDescription = 16 << 10

// moments reads a schedule that has no fault.
func moments(value any) (s perdure.Schedule) {
	fields, _ := value.(map[string]any)
	s.Cron, _ = given(fields, "cron_expression")
	s.Zone, _ = given(fields, "timezone")
	if at, ok := given(fields, "scheduled_at"); ok {
		_ = s.At.UnmarshalText([]byte(at)) // it was checked
	}
	return s
}

// scheduleFault says which of rows 4 to 7 of 8.1 a schedule fails; empty: none of them. Blank strings count
// as absent.
func scheduleFault(value any) string {
	fields, ok := value.(map[string]any)
	if !ok {
		return "schedule must be an object"
	}
	at, hasAt := given(fields, "scheduled_at")
	_, hasCron := given(fields, "cron_expression")
	if hasAt {
		var moment time.Time // its decoder is RFC 3339 to the letter; time.Parse is not
		if at == "" || moment.UnmarshalText([]byte(at)) != nil {
			return "scheduled_at must be RFC3339"
		}
	}
	switch {
	case !hasAt && !hasCron:
		return "schedule must include exactly one of cron_expression (recurring) or scheduled_at (one-shot)"
	case hasAt && hasCron:
		return "schedule must not include both cron_expression and scheduled_at; provide exactly one"
	}
	return ""
}

// given returns a trimmed text and whether it was given. What is no string was given, with no text.
func given(fields map[string]any, name string) (string, bool) {
	value, ok := fields[name]
	if !ok {
		return "", false
	}
	text, isText := value.(string)
	text = strings.TrimSpace(text)
	return text, !isText || text != ""
}
