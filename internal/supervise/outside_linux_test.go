package supervise_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// outside is the part of the machine that a confined command is not to reach: files, listeners and
// a process, all made for one attempt. What became of them is looked at from here, never asked of
// the command.
type outside struct {
	*scene
	canary    string // in whatever is not to be read
	folder    string // with the secret, the database, another session's workspace
	workspace string
	before    string // what the folder looked like
	tools     string // a folder that commands may read and execute

	once   sync.Once
	victim *exec.Cmd // a process of the machine, made when it is first needed

	mu    sync.Mutex
	heard []string // guarded by mu: what came to a listener
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	base := realPath(t, memoryDir(t))
	o := &outside{scene: newSceneIn(t, base), canary: "canary-" + rand.Text()}
	o.folder, o.workspace = filepath.Join(base, "outside"), filepath.Join(base, "workspaces", "ours")
	for _, dir := range []string{o.folder, o.workspace, filepath.Join(base, "workspaces", "theirs")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o.write(filepath.Join(o.folder, "secret"), o.canary)
	o.write(filepath.Join(o.folder, "perdure.db"), "SQLite format 3\x00"+o.canary)
	o.write(o.theirs(), o.canary)
	o.write(filepath.Join(o.folder, "program"), "#!/bin/sh\necho "+o.canary+"\n")
	if err := os.Chmod(filepath.Join(o.folder, "program"), 0o755); err != nil {
		t.Fatal(err)
	}
	o.before = o.look()
	return o
}

func (o *outside) secret() string { return filepath.Join(o.folder, "secret") }
func (o *outside) theirs() string { return filepath.Join(filepath.Dir(o.workspace), "theirs", "notes") }

func (o *outside) write(path, text string) {
	o.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		o.Fatal(err)
	}
}

// look is everything about the folder that a command could have changed: names, kinds, modes,
// owners, times, content, one attribute.
func (o *outside) look() string {
	o.Helper()
	var b strings.Builder
	for _, dir := range []string{o.folder, filepath.Dir(o.theirs())} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			o.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			st, err := e.Info()
			if err != nil {
				o.Fatal(err)
			}
			sys := st.Sys().(*syscall.Stat_t)
			fmt.Fprintln(&b, path, st.Mode(), sys.Uid, sys.Gid, sys.Nlink, st.ModTime().UnixNano())
			if st.Mode().IsRegular() {
				text, err := os.ReadFile(path)
				if err != nil {
					o.Fatal(err)
				}
				attribute := make([]byte, 8)
				n, _ := syscall.Getxattr(path, "user.perdure", attribute)
				fmt.Fprintf(&b, "%q %d\n", text, n)
			}
		}
	}
	return b.String()
}

// changed reports whether the folder looks different.
func (o *outside) changed() bool { return o.look() != o.before }

// listen makes a listener that remembers what it hears, and returns its address.
func (o *outside) listen(network, address string) string {
	o.Helper()
	if strings.HasSuffix(network, "gram") || network == "udp" {
		return o.listenPacket(network, address)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		o.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			b := make([]byte, 64)
			n, _ := c.Read(b)
			o.hear("connection " + string(b[:n]))
			_ = c.Close()
		}
	})
	o.Cleanup(func() { _ = l.Close(); done.Wait() })
	o.before = o.look()
	return l.Addr().String()
}

func (o *outside) listenPacket(network, address string) string {
	o.Helper()
	l, err := net.ListenPacket(network, address)
	if err != nil {
		o.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		b := make([]byte, 64)
		for {
			n, _, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			o.hear(string(b[:n]))
		}
	})
	o.Cleanup(func() { _ = l.Close(); done.Wait() })
	o.before = o.look()
	return l.LocalAddr().String()
}

func (o *outside) hear(word string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = append(o.heard, word)
}

// heardAnything reports whether anything came to the listener before we say the last word.
func (o *outside) heardAnything(network, address string) bool {
	o.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		o.Fatal(err)
	}
	if _, err := c.Write([]byte("last")); err != nil {
		o.Fatal(err)
	}
	_ = c.Close()
	count := 0
	o.eventually("the listener hears its last word", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		count = len(o.heard)
		return count > 0 && strings.HasSuffix(o.heard[count-1], "last")
	})
	return count > 1
}

// pid is the number of a process of this machine. The secret is its standard input, its folder is
// outside, the canary is in its environment and in its arguments.
func (o *outside) pid() string {
	o.Helper()
	o.once.Do(func() {
		stdin, err := os.Open(o.secret())
		if err != nil {
			o.Fatal(err)
		}
		defer stdin.Close()
		o.victim = exec.Command("/bin/sh", "-c", "read line; while :; do sleep 1000; done", "sh", o.canary)
		o.victim.Stdin, o.victim.Dir, o.victim.Env = stdin, o.folder, []string{"CANARY=" + o.canary, "PATH=/usr/bin:/bin"}
		o.victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := o.victim.Start(); err != nil {
			o.Fatal(err)
		}
		o.Cleanup(func() {
			_ = syscall.Kill(-o.victim.Process.Pid, syscall.SIGCONT)
			_ = syscall.Kill(-o.victim.Process.Pid, syscall.SIGKILL)
			_ = o.victim.Wait()
		})
		o.eventually("the victim has its arguments", func() bool {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", o.victim.Process.Pid))
			return err == nil && bytes.Contains(b, []byte(o.canary))
		})
	})
	return fmt.Sprint(o.victim.Process.Pid)
}

// signalTime is how long a process may take to die of a signal that reached it: it must come to run
// for that.
const signalTime = 3 * time.Second

// victimDies reports whether the process is ended or stopped soon.
func (o *outside) victimDies() bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(signalTime); !o.victimDead(); <-tick.C {
		if time.Now().After(until) {
			return false
		}
	}
	return true
}

// victimDead reports whether the process was ended, or stopped.
func (o *outside) victimDead() bool {
	b, err := os.ReadFile("/proc/" + o.pid() + "/stat")
	if err != nil {
		return true
	}
	state := b[bytes.LastIndexByte(b, ')')+2]
	return strings.ContainsRune("ZXTt", rune(state))
}

// segment makes a piece of System V memory and returns its number.
func (o *outside) segment() string {
	o.Helper()
	const private, create, size = 0, 0o1600, 4096
	id, _, errno := syscall.Syscall(syscall.SYS_SHMGET, private, size, create)
	if errno != 0 {
		o.Fatal(errno)
	}
	o.Cleanup(func() { _, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, id, 0, 0) }) // IPC_RMID
	return fmt.Sprint(id)
}

// run runs a script in the workspace under l, and returns what it printed.
func (o *outside) run(l *supervise.Local, script string) (string, supervise.Exit) {
	o.Helper()
	return o.follow(o.begin(l, script))
}

func (o *outside) begin(l *supervise.Local, script string) supervise.Run {
	o.Helper()
	if err := l.Prepare(o.soon(), o.dir); err != nil {
		o.Fatal(err)
	}
	run, err := l.Start(o.soon(), o.dir, supervise.Command{
		Argv: []string{"/bin/bash", "-c", "--", script}, Env: o.env(), Dir: o.workspace,
	})
	if err != nil {
		o.Fatal(err)
	}
	return run
}

func realPath(t testing.TB, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// confined returns a runtime with a profile that may also execute this test binary.
func confined(t testing.TB, c supervise.Config) *supervise.Local {
	t.Helper()
	c.Reads = append(c.Reads, self())
	l, err := supervise.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
