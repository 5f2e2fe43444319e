package app

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestC20NoEgress runs commands of every noun, including a working one, and checks that none
// resolves a name or connects to an address: nothing is reported to anybody.
func TestC20NoEgress(t *testing.T) {
	t.Parallel()
	needTracing(t, "C20")
	p := newPlace(t, map[string]string{"agent.yaml": "steps:\n  - calls: [{name: echo, args: {message: hi}}]\n  - {text: done, repeat: true}\n"})
	agent := "scripted:" + filepath.Join(p.work, "agent.yaml")
	trace := filepath.Join(t.TempDir(), "trace")
	reached := regexp.MustCompile(`sa_family=AF_INET6?`)
	traced := func(works bool, args ...string) string {
		t.Helper()
		cmd := exec.Command("strace", append([]string{"-f", "-qq", "-o", trace, "-e", "trace=connect,sendto,sendmsg,sendmmsg", "perdure"}, args...)...)
		cmd.Env, cmd.Dir = p.command().Env, p.work
		said, err := cmd.CombinedOutput()
		if (err == nil) != works {
			t.Errorf("%v: %v: %s", args, err, said)
		}
		calls, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		return string(calls)
	}
	for _, line := range []string{
		"run --model " + agent + " hello", "session list", "session show last", "event list last", "task list", "call list last", "approval list", "schedule list",
		"budget show", "cost report", "webhook list", "file ls last", "value list last", "secret list last", "tool list", "tool call echo {\"message\":\"hi\"}", "token list",
		"egress list", "admin verify", "config list", "doctor", "version", "help", "ps", "completion bash", "tool init hello", "session new --model " + agent, "admin backup copy",
	} {
		if calls := traced(true, strings.Fields(line)...); reached.MatchString(calls) {
			t.Errorf("perdure %s reaches out:\n%s", line, calls)
		}
	}
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	if calls := traced(false, "session", "list", "--server", none.URL); !reached.MatchString(calls) {
		t.Errorf("a command that asks a server was not seen to: %s", calls)
	}
}
