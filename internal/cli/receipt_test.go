package cli

import (
	"strings"
	"testing"
)

// TestSecretsAreSeen: a command that creates a secret refuses an output format that leaves the
// secret out, before it creates anything. The engine of this test has no such method, so that a
// call would be a bug.
func TestSecretsAreSeen(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"token create ci", "webhook create https://example.com/", "webhook change whk_1 --rotate"} {
		for _, form := range []string{" -o none", " -o name"} {
			code, out, talk := command{args: line + form, scene: &scene{}}.run(t.Context())
			if code != exitUsage || out != "" || !strings.Contains(talk, "secret") {
				t.Errorf("%s: exit code %d, %q, %q", line+form, code, out, talk)
			}
			wantAdvice(t, talk)
		}
	}
	code, _, talk := command{args: "webhook change whk_1 --disable -o none", engine: counter{scene: &scene{}}}.run(t.Context())
	if code == exitUsage {
		t.Errorf("what makes no secret is refused: %s", talk)
	}
}
