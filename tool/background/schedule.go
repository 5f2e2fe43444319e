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

// scheduled is the result for a scheduled run (BG9).
type scheduled struct {
	Created bool   `json:"created"`
	Status  string `json:"status"`
	Title   string `json:"title"`
	Tool    string `json:"tool"`
	Signal  bool   `json:"signal_on_completion"`
	tool.ScheduleView
}

// schedule creates the schedule with its monitor (rows 13 to 16, 21).
func schedule(ctx context.Context, o order, env tool.Env) tool.Result {
	s := o.when
	s.Title, s.Description = o.title, o.description()
	s.Action = perdure.ScheduleAction{Tool: o.name, Args: o.raw, Signal: o.signal}
	made, err := env.Schedules.CreateSchedule(ctx, tool.ScheduleRequest{Schedule: s, Monitor: true})
	if refused, ok := tool.ScheduleRefusal(err); ok {
		return refused
	}
	if err != nil {
		return failed(ctx, err)
	}
	return tool.Success(scheduled{Created: true, Status: "scheduled", Title: o.title, Tool: o.name, Signal: o.signal, ScheduleView: tool.ViewSchedule(made)})
}

// description returns the text of a monitor for people; a fire uses its record instead (BG7).
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
	_ = enc.Encode(payload) // its arguments were validated
	whole := "Monitor: " + o.title + "\n\nThis scheduled monitor fired. Start the background run now.\n\nspawn_background payload:\n" + strings.TrimSpace(text.String())
	return strings.ToValidUTF8(whole[:min(len(whole), maxDescription)], "")
}

// maxDescription is the maximum size of the stored description.
const maxDescription = 16 << 10

// parseSchedule reads a valid schedule.
func parseSchedule(value any) (s perdure.Schedule) {
	fields, _ := value.(map[string]any)
	s.Cron, _ = argumentGiven(fields, "cron_expression")
	s.Zone, _ = argumentGiven(fields, "timezone")
	if at, ok := argumentGiven(fields, "scheduled_at"); ok {
		_ = s.At.UnmarshalText([]byte(at)) // already validated
	}
	return s
}

// scheduleFault returns which of rows 4 to 7 of 8.1 a schedule violates; empty: none. A blank
// string counts as absent.
func scheduleFault(value any) string {
	fields, ok := value.(map[string]any)
	if !ok {
		return "schedule must be an object"
	}
	at, hasAt := argumentGiven(fields, "scheduled_at")
	_, hasCron := argumentGiven(fields, "cron_expression")
	if hasAt {
		var moment time.Time // its decoder is strict RFC 3339; time.Parse is not
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

// argumentGiven returns a trimmed text, and whether it was given. A value that is not a string
// counts as given, with an empty text.
func argumentGiven(fields map[string]any, name string) (string, bool) {
	value, ok := fields[name]
	if !ok {
		return "", false
	}
	text, isText := value.(string)
	text = strings.TrimSpace(text)
	return text, !isText || text != ""
}
