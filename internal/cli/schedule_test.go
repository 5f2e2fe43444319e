package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	_ "time/tzdata" // the machine may have none
)

// ask runs a command that needs no engine.
func ask(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	code = Main(t.Context(), World{Args: args, Stdout: &out, Stderr: &talk, Log: func(LogStyle) *slog.Logger { return slog.New(slog.DiscardHandler) }})
	return code, out.String(), talk.String()
}

// TestScheduleNext reads as a person would explain it, and has instants for scripts.
func TestScheduleNext(t *testing.T) {
	t.Parallel()
	asked := []string{"schedule", "next", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-27T12:00:00Z", "--count", "3"}
	for form, want := range map[string]string{
		"table": `30 2 * * * in Europe/Berlin, from Fri 2026-03-27 13:00 +01:00 on:
  Sat 2026-03-28 02:30 +01:00   (01:30 UTC)
  Sun 2026-03-29 03:00 +02:00   (01:00 UTC)
      02:30 on 2026-03-29 does not exist in Europe/Berlin: the clocks go from 02:00 to 03:00, and it fires as the gap ends.
  Mon 2026-03-30 02:30 +02:00   (00:30 UTC)
`,
		"name": "2026-03-28T01:30:00Z\n2026-03-29T01:00:00Z\n2026-03-30T00:30:00Z\n",
	} {
		code, got, _ := ask(t, append(asked, "-o", form)...)
		if code != 0 || got != want {
			t.Errorf("%s: got %d and\n%s\nwant\n%s", form, code, got, want)
		}
	}
}

// TestScheduleNextRefuses with a reason, as a mistake of the command line.
func TestScheduleNextRefuses(t *testing.T) {
	t.Parallel()
	for reason, args := range map[string][]string{
		"is not one of 0 to 59": {"61 * * * *"},
		"does not fire in the":  {"0 0 31 2 *"},
		"no time zone is":       {"@daily", "--tz", "Mars/Olympus"},
		"1 to 100":              {"@daily", "--count", "101"},
	} {
		code, _, said := ask(t, append([]string{"schedule", "next"}, args...)...)
		if code != exitUsage || !strings.Contains(said, reason) {
			t.Errorf("%v: got %d, %s; want %d and %q", args, code, said, exitUsage, reason)
		}
	}
}
