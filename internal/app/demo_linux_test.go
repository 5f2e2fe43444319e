package app

import (
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
