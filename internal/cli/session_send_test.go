package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// TestSendRefused: a message that may not be sent is refused for the reason that the root gives,
// before an engine is opened.
func TestSendRefused(t *testing.T) {
	t.Parallel()
	reason := perdure.Text("").CheckInput().Error()
	for _, flags := range [][]string{nil, {"--wait"}, {"--dry-run"}} {
		var out, talk bytes.Buffer
		code := Main(t.Context(), Dependencies{
			Args: append([]string{"session", "send", "last", ""}, flags...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &talk,
			Env: func(string) string { return "" }, DataDir: "/data", Log: quietLog,
			Open: func(context.Context, OpenOptions) (Engine, error) {
				t.Error("an engine was opened")
				return &scene{}, nil
			},
		})
		if code != exitUsage || !strings.Contains(talk.String(), program+": "+reason) || out.Len() > 0 {
			t.Errorf("%q: exit code %d, %q, %q; want %d and %q", flags, code, &talk, &out, exitUsage, reason)
		}
	}
}
