package background

import (
	"strings"
	"time"
)

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
