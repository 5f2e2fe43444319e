package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemoApprovalsTerminal answers the first question of the demo from another terminal, while it
// is open on this one, and the second in the demo itself (F3).
func TestDemoApprovalsTerminal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data := filepath.Join(folder, "demo", "data")
	h := terminalHome{t: t, folder: folder, env: append(os.Environ(), "HOME="+folder, "PERDURE_DATA="+data, "TERM=xterm", "GORACE=atexit_sleep_ms=0")}

	x := onTerminal(t, h.env, "perdure", "demo", "approvals", "--dir", filepath.Dir(data))
	x.shows(`pay {"amount":996`)
	x.shows("in another terminal: perdure approve --data")
	x.press("perhaps\n")
	x.shows("y or n?")
	open := strings.Fields(h.says("approval", "list", "-o", "name")) // the newest first
	h.says("approval", "deny", open[len(open)-1], "--note", "too much")
	x.shows("denied by operator: invoice 9 is not paid")
	x.shows(`pay {"amount":672`)
	x.press("y\n")
	x.shows("approved by operator: invoice 18 is paid once, exactly 672")
	x.shows("asked 2 times")
	x.ends(0)
}

// TestU13PromptsOfTheDemo: in the workload of the demo, a person is asked about at most one call in
// twenty, and decides each of these once. The rule of the demo allows the other payments.
func TestU13PromptsOfTheDemo(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data := filepath.Join(folder, "demo", "data")
	h := terminalHome{t: t, folder: folder, env: append(os.Environ(), "HOME="+folder, "PERDURE_DATA="+data, "TERM=xterm", "GORACE=atexit_sleep_ms=0")}
	number := func(args ...string) (n int) {
		t.Helper()
		if err := json.Unmarshal([]byte(h.says(args...)), &n); err != nil {
			t.Fatalf("perdure %s: %v", strings.Join(args, " "), err)
		}
		return n
	}

	var reported struct {
		Calls  int `json:"tool_calls"`
		Asked  int `json:"asked"`
		Denied int `json:"denied"`
	}
	if err := json.Unmarshal([]byte(h.says("demo", "approvals", "-o", "json", "--keep", "--dir", filepath.Dir(data))), &reported); err != nil {
		t.Fatal(err)
	}

	// The journal counts, and not the demo itself. A denied call does not start.
	started := number("event", "list", "last", "--type", "tool.started", "--limit", "1000", "--jq", "length")
	prompts := number("event", "list", "last", "--type", "approval.requested", "--limit", "1000", "--jq", "length")
	decisions := number("event", "list", "last", "--type", "approval.resolved", "--limit", "1000", "--jq", "length")
	unasked := number("event", "list", "last", "--type", "tool.started", "--limit", "1000", "--jq", `[.[]|select(.data.class=="at_most_once")]|length`)
	if prompts == 0 || prompts*20 > started {
		t.Errorf("a person was asked %d times for %d calls; the bound is one in 20", prompts, started)
	}
	if decisions != prompts {
		t.Errorf("%d questions needed %d decisions", prompts, decisions)
	}
	if unasked <= prompts {
		t.Errorf("of %d payments, %d were asked about: the rule allows too few", unasked, prompts)
	}
	if reported.Asked != prompts || reported.Calls != started+reported.Denied {
		t.Errorf("the demo reports %+v; the journal has %d calls that started and %d questions", reported, started, prompts)
	}
}
