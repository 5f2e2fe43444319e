package shell

import (
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/tool"
)

// TestDeadline: the timeout that a call names is its deadline, plus the time to stop the command;
// without one the deadline is that of the configuration, which the schema shows.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		configured time.Duration
		args       string
		want       time.Duration
		says       string
	}{
		{0, `{"command":"true"}`, 2 * time.Hour, "Absent: the command is stopped after 2 hours"},
		{time.Hour, `{"command":"true"}`, time.Hour, "Absent: the command is stopped after 1 hour,"},
		{90 * time.Minute, `{"command":"true"}`, 90 * time.Minute, "Absent: the command is stopped after 5400 seconds"},
		{0, `{"command":"true","timeout_seconds":2592000}`, 720*time.Hour + DefaultGrace + cleanupWait, "2 hours"},
		{time.Hour, `{"command":"true","timeout_seconds":1}`, time.Second + DefaultGrace + cleanupWait, "1 hour"},
	} {
		b, err := New(Config{Runner: &scripted{}, RunsDir: t.TempDir(), Dir: t.TempDir(), Deadline: c.configured})
		if err != nil {
			t.Fatal(err)
		}
		if got := tool.DeadlineOf(b, []byte(c.args)); got != c.want {
			t.Errorf("%s, configured %s: got %s, want %s", c.args, c.configured, got, c.want)
		}
		if schema := string(b.Spec().Parameters); !strings.Contains(schema, c.says) {
			t.Errorf("configured %s: the schema is %s, want %q in it", c.configured, schema, c.says)
		}
	}
	if _, err := New(Config{Runner: &scripted{}, RunsDir: t.TempDir(), Dir: t.TempDir(), Deadline: -1}); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("a negative deadline: got %v", err)
	}
}
