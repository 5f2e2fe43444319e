package app

import (
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// advised checks that stderr says what went wrong, and on a separate line what to do, without a
// stack trace.
func advised(ts *testscript.TestScript, _ bool, _ []string) {
	text := ts.ReadFile("stderr")
	if found := regexp.MustCompile(`goroutine|panic|runtime error|\.go:`).FindString(text); found != "" {
		ts.Fatalf("stderr has %q", found)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "perdure: ") {
			if len(lines) < i+2 || !strings.HasPrefix(lines[i+1], "  ") || strings.TrimSpace(lines[len(lines)-1]) == "" {
				ts.Fatalf("%q says nothing of what to do", line)
			}
			return
		}
	}
	ts.Fatalf("stderr does not say what went wrong")
}
