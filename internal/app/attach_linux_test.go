package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const askingScript = `
rules:
  - when: {user_contains: build, last_role: user, not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bash, title: Build, args: {command: "echo begun; until test -e go; do sleep 0.05; done; echo built"}}}]
  - when: {user_contains: ask, last_role: user, not_called: world__work_slowly}
    calls: [{name: world__work_slowly, args: {name: elicitation/create}}]
steps:
  - {text: "Done.", repeat: true}
`

// TestC07Typed types at a real terminal: the edited line reaches the asking task, and the terminal
// modes are restored after an answer, SIGTERM, a detach, and a server that dies and returns.
func TestC07Typed(t *testing.T) {
	t.Parallel()
	d := newDoorway(t, nil)
	world, work := t.TempDir(), t.TempDir()
	servers := []byte(`{"mcpServers": {"world": {"command": "mcpfixture", "args": ["` + world + `"]}}}`)
	if err := errors.Join(os.MkdirAll(d.data, 0o700), os.WriteFile(filepath.Join(d.data, "mcp.json"), servers, 0o600)); err != nil {
		t.Fatal(err)
	}
	d.start()
	h := terminalHome{t: t, folder: work, env: append(os.Environ(), "HOME="+work, "PERDURE_DATA="+d.data, "PERDURE_TOKEN="+d.token, "TERM=xterm", "GORACE=atexit_sleep_ms=0")}
	model := d.script(askingScript)
	talks := func(text string) (session string) {
		session = strings.TrimSpace(h.says("session", "new", "--model", model, "--capability", "mcp_world", "--capability", "bashkit_shell", "--workspace", work, "-o", "name"))
		h.says("session", "send", session, text)
		return session
	}
	task := func(session, state string) (id string) {
		d.until("a task that is "+state, func() bool {
			id = strings.TrimSpace(h.says("task", "list", "--session", session, "--state", state, "-o", "name"))
			return id != ""
		})
		return id
	}
	attach := func(id string, flags ...string) *terminal {
		x := onTerminal(t, h.env, "perdure", append([]string{"attach", id}, flags...)...)
		x.shows("detach with Ctrl-P Ctrl-Q")
		return x
	}

	asking := task(talks("ask"), "awaiting_input")
	x := attach(asking)
	x.shows("it asks: ")
	if now := modesOf(t, x.keys); now.Lflag&(syscall.ECHO|syscall.ICANON) != 0 {
		t.Errorf("the keys do not come one by one: %+v", now)
	}
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.ends(130)
	if state := task(strings.TrimSpace(h.says("task", "show", asking, "--jq", ".session_id")), "awaiting_input"); state != asking {
		t.Errorf("after SIGTERM %s waits, and not %s", state, asking)
	}

	x = attach(asking, "--exit-status")
	x.shows("it asks: ")
	x.press("nonsense\x1c\x15{\"colour\":\x1b[D \"gr世\x7f\x7f\x7fblue\"}\r")
	x.shows(asking + " has ended: succeeded")
	x.ends(0)
	if got := h.says("task", "show", asking, "-o", "json"); !strings.Contains(got, `blue`) || strings.Contains(got, "nonsense") {
		t.Errorf("the task was not told blue: %s", got)
	}

	building := task(talks("build"), "running")
	x = attach(building, "--server", "unix://"+filepath.Join(d.data, "perdure.sock")) // a closed port refuses connections; a kept listener would not
	x.shows("begun")
	d.kill()
	x.shows("no server answers; waiting up to")
	d.start()
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.shows("built")
	x.shows(building + " has ended: succeeded")
	x.ends(0)
}

// TestU6Senders: three people are attached to one task of a server, each with their own token, and
// one of them only watches. All see what another one sends, and the name of the sender. Both
// writers reach the task.
func TestU6Senders(t *testing.T) {
	t.Parallel()
	d := newDoorway(t, nil)
	d.start()
	work := t.TempDir()
	home := func(token string) terminalHome {
		return terminalHome{t: t, folder: work, env: append(os.Environ(), "HOME="+work, "PERDURE_SERVER="+d.url, "PERDURE_TOKEN="+token, "TERM=xterm", "GORACE=atexit_sleep_ms=0")}
	}
	h := home(d.token)
	session := strings.TrimSpace(h.says("session", "new", "--model", d.script(askingScript), "--capability", "bashkit_shell", "--workspace", work, "-o", "name"))
	h.says("session", "send", session, "build")
	var task string
	d.until("a running task", func() bool {
		task = strings.TrimSpace(h.says("task", "list", "--session", session, "--state", "running", "-o", "name"))
		return task != ""
	})
	attach := func(name string, flags ...string) *terminal {
		x := onTerminal(t, home(d.tokenFor(`{"name": "laptop", "user": "`+name+`", "scopes": ["read", "write"]}`)).env, "perdure", append([]string{"attach", task}, flags...)...)
		x.shows("begun")
		return x
	}
	alice, bob, carol := attach("alice"), attach("bob"), attach("carol", "--read-only")

	alice.press("leave out the drafts\r")
	bob.shows("alice sent: leave out the drafts")
	carol.shows("alice sent: leave out the drafts")
	bob.press("and the notes\r")
	alice.shows("bob sent: and the notes")
	carol.shows("bob sent: and the notes")
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*terminal{"alice": alice, "bob": bob, "carol": carol} {
		x.shows(task + " has ended: succeeded")
		x.ends(0)
		if strings.Contains(x.all.String(), name+" sent:") {
			t.Errorf("%s is shown their own message: %q", name, x.all.String())
		}
	}
}
