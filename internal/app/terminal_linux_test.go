package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// terminalWait is how long a test waits for a text on a terminal.
const terminalWait = time.Minute

// terminal is a pseudo terminal with a command on it.
type terminal struct {
	t      *testing.T
	keys   *os.File
	cmd    *exec.Cmd
	pieces <-chan string // output; closed when no process has the terminal open
	text   string        // output that no test has consumed yet
	all    strings.Builder
	before syscall.Termios // terminal modes before the command
}

// onTerminal starts a command line on its own terminal, as the session leader.
func onTerminal(t *testing.T, env []string, name string, args ...string) *terminal {
	t.Helper()
	keys, screen := newTerminal(t)
	ctx, stop := context.WithTimeout(t.Context(), 2*terminalWait)
	t.Cleanup(stop)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	x := &terminal{t: t, keys: keys, cmd: cmd, before: modesOf(t, keys)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := screen.Close(); err != nil {
		t.Fatal(err)
	}
	pieces := make(chan string)
	go func() { // it ends with the terminal
		defer close(pieces)
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			if err != nil {
				return
			}
			select {
			case pieces <- string(buffer[:n]):
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		_ = keys.Close()
	})
	x.pieces = pieces
	return x
}

// newTerminal opens both ends of a terminal of the usual size. The caller must close the screen.
func newTerminal(t *testing.T) (keys, screen *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unlock(keys)
	if err != nil {
		t.Fatal(err)
	}
	if screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	resize(t, keys, 80)
	return keys, screen
}

// resize sets the number of columns of a terminal, which signals its processes.
func resize(t *testing.T, keys *os.File, columns uint16) {
	t.Helper()
	size := [4]uint16{24, columns}
	control(t, keys, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

// modesOf returns the modes of a terminal: echo, line editing, and so on.
func modesOf(t *testing.T, keys *os.File) (modes syscall.Termios) {
	t.Helper()
	control(t, keys, syscall.TCGETS, unsafe.Pointer(&modes))
	return modes
}

// control sends an ioctl to a terminal.
func control(t *testing.T, keys *os.File, request uintptr, value unsafe.Pointer) {
	t.Helper()
	raw, err := keys.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if _, _, refused := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(value)); refused != 0 {
			t.Errorf("terminal: %v", refused)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unlock unlocks the other end of a new terminal, and returns its number. Reads of the file end
// when it is closed.
func unlock(keys *os.File) (number int32, err error) {
	raw, err := keys.SyscallConn()
	if err != nil {
		return 0, err
	}
	var locked int32
	var failed syscall.Errno
	err = raw.Control(func(fd uintptr) {
		for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
			if _, _, refused := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(value))); refused != 0 {
				failed = refused
			}
		}
	})
	if err == nil && failed != 0 {
		err = failed
	}
	return number, err
}

// shows waits until a text appears on the terminal, after the texts of earlier calls.
func (x *terminal) shows(words string) {
	x.t.Helper()
	ctx, stop := context.WithTimeout(x.t.Context(), terminalWait)
	defer stop()
	for {
		if _, rest, found := strings.Cut(x.text, words); found {
			x.text = rest
			return
		}
		select {
		case piece, more := <-x.pieces:
			if !more {
				x.t.Fatalf("the terminal has ended without %q:\n%s", words, x.all.String())
			}
			x.text += piece
			x.all.WriteString(piece)
		case <-ctx.Done():
			x.t.Fatalf("no %q on the terminal:\n%s", words, x.all.String())
		}
	}
}

// press types keys.
func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.keys, keys); err != nil {
		x.t.Fatal(err)
	}
}

// ends waits for the end of the command, and checks its exit code.
func (x *terminal) ends(codes ...int) {
	x.t.Helper()
	for piece := range x.pieces {
		x.all.WriteString(piece)
	}
	_ = x.cmd.Wait()
	if got := x.cmd.ProcessState.ExitCode(); !slices.Contains(codes, got) {
		x.t.Errorf("it ended with %d, want %d:\n%s", got, codes, x.all.String())
	}
	if after := modesOf(x.t, x.keys); after != x.before {
		x.t.Errorf("it leaves the terminal in other modes: %+v, was %+v", after, x.before)
	}
	if said := x.all.String(); strings.Count(said, "\x1b[?7l") != strings.Count(said, "\x1b[?7h") || strings.Contains(said, "\x1b[?25l") {
		x.t.Errorf("it leaves a terminal that cuts lines, or has no cursor: %q", said)
	}
}

// leave presses Ctrl-C as often as needed. A run whose background work has ended may exit before
// the second one.
func (x *terminal) leave() {
	x.t.Helper()
	x.press("\x03")
	x.shows("press Ctrl-C again to exit")
	x.press("\x03")
	x.ends(130, 0)
}

// terminalHome is a data directory for commands on terminals, with a workspace and a model that
// starts a command in the background and then takes long.
type terminalHome struct {
	t      *testing.T
	env    []string
	folder string
}

// slowWork is the command: it waits for a file.
const slowWork = "echo has begun; until test -e go; do sleep 0.05; done; echo built"

const slowThinker = `
rules:
  - when: {last_role: notification}
    text: It is home.
  - when: {last_role: user, not_called: spawn_background}
    calls:
      - name: spawn_background
        args: {tool: bash, args: {command: "sh work.sh"}}
steps:
  - text: never
    delay: 10m
    repeat: true
`

func newTerminalHome(t *testing.T, work string) terminalHome {
	t.Helper()
	folder := t.TempDir()
	data := filepath.Join(folder, "data")
	h := terminalHome{t: t, folder: folder, env: append(os.Environ(), "HOME="+folder, "PERDURE_DATA="+data, "TERM=xterm", "GORACE=atexit_sleep_ms=0")}
	t.Cleanup(func() { killCommands(data) })
	for _, err := range []error{os.WriteFile(h.file("slow.yaml"), []byte(slowThinker), 0o600), os.Mkdir(h.file("ws"), 0o700), os.WriteFile(h.file("ws/work.sh"), []byte(work), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h terminalHome) file(name string) string { return filepath.Join(h.folder, name) }

// start runs the slow model on a terminal, until its command is running.
func (h terminalHome) start() *terminal {
	h.t.Helper()
	x := onTerminal(h.t, h.env, "perdure", "run", "--model", "scripted:"+h.file("slow.yaml"), "--workspace", h.file("ws"), "--allow-shell", "build it")
	x.shows(" bash running: ") // the task exists and runs
	return x
}

// says runs a command without a terminal, and returns its stdout.
func (h terminalHome) says(args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "perdure", args...)
	cmd.Env = h.env
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("perdure %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestC09CtrlC presses Ctrl-C on a real terminal, which signals all its processes: the first one
// ends the turn, the second one the command; background work continues and is delivered.
func TestC09CtrlC(t *testing.T) {
	t.Parallel()
	h := newTerminalHome(t, slowWork)

	x := h.start()
	x.press("\x03")
	x.shows("turn interrupted; press Ctrl-C again to exit")
	x.shows("canceled by user: Ctrl-C")
	x.press("\x03")
	x.ends(130)

	if state := h.says("task", "list", "-o", "json"); !strings.Contains(state, `"running"`) {
		t.Errorf("the task does not run on: %s", state)
	}
	if got := h.says("session", "list", "-o", "name"); !strings.HasPrefix(got, "session_") {
		t.Errorf("the session is not there: %q", got)
	}
	if err := os.WriteFile(h.file("ws/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.says("run", "--last"); !strings.Contains(got, "It is home.") {
		t.Errorf("the task does not come home: %q", got)
	}
}

// TestC07Terminal attaches a real terminal to a task: it survives every kind of detach, and only an
// explicit cancel ends it.
func TestC07Terminal(t *testing.T) {
	t.Parallel()
	h := newTerminalHome(t, slowWork)
	holder := h.start()
	id := strings.TrimSpace(h.says("task", "list", "-o", "name"))
	attachBy := func(name string, args ...string) *terminal {
		x := onTerminal(t, h.env, name, append(args, id)...)
		x.shows("detach with Ctrl-P Ctrl-Q")
		x.shows("has begun")
		return x
	}
	attach := func() *terminal { return attachBy("perdure", "attach") }
	goesOn := func(after string) {
		t.Helper()
		if state := h.says("task", "list", "-o", "json"); !strings.Contains(state, `"running"`) {
			t.Errorf("the task does not run on after %s: %s", after, state)
		}
	}

	x := attach()
	x.press("\x10\x11")
	x.shows("detached from " + id)
	x.ends(0)
	goesOn("Ctrl-P Ctrl-Q")

	for name, answer := range map[string]string{"Enter": "\r", "d": "d\r"} {
		x = attach()
		x.press("\x03")
		x.shows("[D/c]")
		x.press(answer)
		x.shows("detached from " + id)
		x.ends(0)
		goesOn("Ctrl-C and " + name)
	}

	x = attach()
	x.press("\x03")
	x.shows("[D/c]")
	x.press("\x03")
	x.shows("detached from " + id)
	x.ends(130)
	goesOn("Ctrl-C twice")

	for _, x := range []*terminal{attach(), attachBy("sh", "-c", `trap "" HUP; exec perdure attach "$0"`)} {
		// the window is closed, and the kernel sends SIGHUP, which the second one ignores
		if err := x.keys.Close(); err != nil {
			t.Fatal(err)
		}
		_ = x.cmd.Wait() // by the signal, or by the end of the terminal
		goesOn("the end of the terminal")
	}

	x = attach()
	x.press("\x03")
	x.shows("[D/c]")
	x.press("c\r")
	x.shows("cancel of " + id + " recorded")
	x.ends(0)
	if state := h.says("task", "list", "-o", "json"); strings.Contains(state, `"running"`) {
		t.Errorf("the task runs on after it was cancelled: %s", state)
	}
	holder.leave()
}
