package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// split runs a command whose stdout and stderr are each a terminal or a pipe, and returns their
// output.
func (h terminalHome) split(outIs, errIs bool, env []string, args ...string) (out, talk string) {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "perdure", args...)
	cmd.Env = append(h.env, env...)
	var group sync.WaitGroup
	var screens []*os.File
	stream := func(terminal bool, text *bytes.Buffer) io.Writer {
		if !terminal {
			return text
		}
		keys, screen := newTerminal(h.t)
		screens = append(screens, screen)
		group.Go(func() {
			_, _ = io.Copy(text, keys) // until the other end is closed
			_ = keys.Close()
		})
		return screen
	}
	var data, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = stream(outIs, &data), stream(errIs, &said)
	_ = cmd.Run() // a failed task has its own exit code
	for _, screen := range screens {
		_ = screen.Close()
	}
	group.Wait()
	return data.String(), said.String()
}

// Colors, and other control characters for a terminal: ESC, backspaces, and a \r that returns to
// the start of a line.
var (
	colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	orders  = regexp.MustCompile(`[\x1b\x08]|\r([^\n]|$)`)
)

// TestC03Terminal runs a command for every combination of flag, environment and terminal: each
// stream has colors if requested, and the cursor moves only on a terminal.
func TestC03Terminal(t *testing.T) {
	t.Parallel()
	h := newTerminalHome(t, "echo built; exit 3")
	fails := strings.Replace(slowThinker, "text: never\n    delay: 10m", "text: Done.", 1)
	if err := os.WriteFile(h.file("slow.yaml"), []byte(fails), 0o600); err != nil {
		t.Fatal(err)
	}
	h.says("run", "--model", "scripted:"+h.file("slow.yaml"), "--workspace", h.file("ws"), "--allow-shell", "build it")
	task := strings.TrimSpace(h.says("task", "list", "-o", "name"))
	runs := 0
	for _, when := range []string{"auto", "always", "never"} {
		for i := range 1 << 4 {
			bit := func(n int) bool { return i>>n&1 == 1 }
			terminal, dumb, forbidden, forced := bit(0), bit(1), bit(2), bit(3)
			if when == "always" && (!forbidden || forced) || when == "never" && (forbidden || !forced) {
				continue // TestC03Matrix has the equivalent cases
			}
			env := []string{}
			for name, set := range map[string]bool{"NO_COLOR=1": forbidden, "CLICOLOR_FORCE=1": forced, "TERM=dumb": dumb} {
				if set {
					env = append(env, name)
				}
			}
			painted := when == "always" || when == "auto" && !forbidden && (forced || terminal && !dumb)
			check := func(stream, text string, painted, moves bool) {
				t.Helper()
				runs++
				rest := colours.ReplaceAllString(text, "")
				if text == "" || (rest != text) != painted || orders.MatchString(rest) != moves {
					t.Errorf("--color %s %v, %s, a terminal: %t: coloured, want %t; the cursor moves, want %t: %q", when, env, stream, terminal, painted, moves, text)
				}
			}
			out, _ := h.split(terminal, !terminal, env, "--color", when, "task", "watch", task)
			check("stdout", out, painted, terminal && !dumb)
			if dumb && forbidden {
				continue
			}
			_, talk := h.split(!terminal, terminal, env, "--color", when, "run", "--last")
			check("stderr", talk, painted, false)
		}
	}
	t.Logf("%d streams", runs)
}

const echoing = `
steps:
  - text: "You said: {{user}}"
    repeat: true
`

// TestC09Loop holds a conversation at a prompt on a real terminal: two lines are two turns, and the
// end of the input is not an error.
func TestC09Loop(t *testing.T) {
	t.Parallel()
	h := newTerminalHome(t, slowWork)
	if err := os.WriteFile(h.file("echo.yaml"), []byte(echoing), 0o600); err != nil {
		t.Fatal(err)
	}
	h.says("run", "--model", "scripted:"+h.file("echo.yaml"), "hello")
	id := strings.TrimSpace(h.says("session", "list", "-o", "name"))
	for i, args := range [][]string{{"--last"}, {"--session", id}} {
		x := onTerminal(t, h.env, "perdure", append([]string{"run"}, args...)...)
		for _, word := range []string{"first", "second"} {
			x.shows("> ")
			x.press(word + "z\x7f\r")
			x.shows("You said: " + word + "\r\n")
		}
		x.shows("> ")
		x.press("\x04")
		x.ends(0)
		if got, want := strings.TrimSpace(h.says("event", "list", id, "--jq", `[.[]|select(.type=="turn.completed")]|length`)), fmt.Sprint(3+2*i); got != want {
			t.Errorf("run %v: %s turns, want %s", args, got, want)
		}
	}
}

// TestC19Real shows ps on a real terminal of 80 columns and 24 lines, with a title that does not
// fit.
func TestC19Real(t *testing.T) {
	t.Parallel()
	h := newTerminalHome(t, slowWork)
	holder := onTerminal(t, h.env, "perdure", "run", "--model", "scripted:"+h.file("slow.yaml"), "--workspace", h.file("ws"), "--allow-shell", strings.Repeat("世界", 40))
	holder.shows(" bash running: ")
	x := onTerminal(t, append(h.env, "NO_COLOR=1"), "perdure", "ps")
	x.ends(0)
	s := &screen{t: t, columns: 80, wraps: true}
	s.write(x.all.String())
	if s.wrapped > 0 || s.row > 24 || !strings.HasPrefix(s.String(), "Working (2)\n") || !strings.Contains(x.all.String(), "世…") {
		t.Errorf("%d lines of %d wrap:\n%s", s.wrapped, s.row, s)
	}
	if got := h.says("ps", "--prompt"); got != "2 running\n" {
		t.Errorf("for a prompt: %q", got)
	}
	holder.leave()
}
