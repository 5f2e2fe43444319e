package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/perdure/perdure/internal/supervise"
)

// escape is one attempt of a command to get out (S11). It is made by a real command under the real
// supervisor, in each profile, and what came of it is looked for from outside.
//
// Without a profile it has to get through, or the attempt would prove nothing.
type escape struct {
	name string
	// aim prepares the outside and returns the script.
	aim func(o *outside) string
	// onStep looks for the effect; out is what the command printed.
	reached func(o *outside, out string) bool
	// open: the profile workspace lets it through, and docs/reference/sandbox.md says so.
	open bool
	// visible: the profile workspace lets it through where the machine permits no mount namespace.
	visible bool
	// root: only root gets through without a profile.
	root bool
	// closed: no command gets through, with or without a profile.
	closed bool
	// there: not every kernel has the way at all, so without a profile it may fail.
	there bool
}

func escapes() []escape {
	return slices.Concat(readEscapes(), writeEscapes(), processEscapes(), socketEscapes(), kernelEscapes())
}

// reads is an attempt to learn what the outside knows.
func reads(name, script string) escape {
	return escape{name: name, aim: func(o *outside) string { return o.expand("echo " + attempted + "; " + script) },
		reached: func(o *outside, out string) bool { return strings.Contains(out, o.canary) }}
}

// writes is an attempt to change a file.
func writes(name, script string) escape {
	return escape{name: name, aim: func(o *outside) string { return o.expand("echo " + attempted + "; " + script) },
		reached: func(o *outside, _ string) bool { return o.changed() }}
}

// tries is an attempt of the fixture, which says whether it got through.
func tries(name, attempt, at string) escape {
	return escape{name: name, aim: func(o *outside) string { return o.expand(fixture(attempt, at)) },
		reached: func(_ *outside, out string) bool { return strings.Contains(out, escaped) }}
}

func fixture(attempt, at string) string {
	return strings.Join([]string{strconv.Quote(self()), escapeMode, attempt, at}, " ")
}

// talks is an attempt to reach a listener.
func talks(name, attempt, network string, address func(o *outside) string) escape {
	var mu sync.Mutex // one escape is tried in several profiles at once
	at := map[*outside]string{}
	return escape{name: name,
		aim: func(o *outside) string {
			where := o.listen(network, address(o))
			mu.Lock()
			defer mu.Unlock()
			at[o] = where
			return fixture(attempt, strconv.Quote(where))
		},
		reached: func(o *outside, _ string) bool {
			mu.Lock()
			defer mu.Unlock()
			return o.heardAnything(network, at[o])
		}}
}

func (e escape) leaky() escape   { e.open = true; return e }
func (e escape) inSight() escape { e.visible = true; return e }
func (e escape) asRoot() escape  { e.root = true; return e }
func (e escape) never() escape   { e.closed = true; return e }

func (e escape) ifThere() escape { e.there = true; return e }

// seen replaces how the effect is looked for.
func (e escape) seen(reached func(o *outside, out string) bool) escape { e.reached = reached; return e }

// expand fills in what a script is aimed at.
func (o *outside) expand(script string) string {
	pid := ""
	if strings.Contains(script, "@PID") {
		pid = o.pid()
	}
	rel, err := filepath.Rel(o.workspace, o.folder)
	if err != nil {
		o.Fatal(err)
	}
	return strings.NewReplacer("@OUT", o.folder, "@REL", rel, "@THEIRS", o.theirs(), "@RUN", o.dir, "@PID", pid,
		"@WS", o.workspace, "@TOOLS", o.tools, "@NAME", filepath.Base(o.dir)).Replace(script)
}

func readEscapes() []escape {
	return []escape{
		reads("read a secret by its path", `cat @OUT/secret`),
		reads("read a secret by ..", `cat @REL/secret`),
		reads("read a secret by a symbolic link", `ln -s @OUT/secret link; cat link`),
		reads("read a secret by a hard link", `ln @OUT/secret hard; cat hard`),
		reads("read a secret by a linked folder", `ln -s @OUT folder; cat folder/secret`),
		reads("read a secret by /proc/self/root", `cat /proc/self/root@OUT/secret`),
		reads("read a secret by /proc/self/cwd", `cat /proc/self/cwd/@REL/secret`),
		reads("read a secret after moving it in", `mv @OUT/secret moved; cat moved`),
		reads("read a secret as a script", `. @OUT/secret 2>&1; true`),
		reads("read the database", `cat @OUT/perdure.db`),
		reads("read another session's workspace", `cat @THEIRS`),
		reads("execute a program outside", `@OUT/program; true`),
		reads("list a folder outside", `ls @OUT`).seen(func(_ *outside, out string) bool { return strings.Contains(out, "perdure.db") }),
		reads("list the runs", `ls @RUN`).seen(func(_ *outside, out string) bool { return strings.Contains(out, "started") }),
		reads("read the record of its own run", `cat @RUN/record`).seen(func(_ *outside, out string) bool { return strings.Contains(out, "boot_id") }),
		reads("read /etc/shadow", `cat /etc/shadow`).asRoot().seen(func(o *outside, out string) bool {
			b, err := os.ReadFile("/etc/shadow")
			if err != nil && os.Geteuid() == 0 {
				o.Fatal(err)
			}
			line, _, _ := strings.Cut(string(b), "\n")
			return strings.Contains(out, line) && line != "" || strings.Contains(out, "root:")
		}),
		reads("see that a file is there", `stat -c %n-%s @OUT/secret`).inSight().seen(func(_ *outside, out string) bool { return strings.Contains(out, "secret-") }),
		tries("read a secret by its file handle", "byhandle", "").asRoot().
			seen(func(o *outside, out string) bool { return strings.Contains(out, o.canary) }).
			aimed(func(o *outside) string {
				handle, err := handleOf(o.secret())
				if err != nil {
					o.Fatal(err)
				}
				return fixture("byhandle", handle)
			}),
		tries("read the kernel's log device", "open", "/dev/kmsg").ifThere(),
	}
}

// aimed replaces how the script is made.
func (e escape) aimed(aim func(o *outside) string) escape { e.aim = aim; return e }

func writeEscapes() []escape {
	return []escape{
		writes("make a file outside", `echo x > @OUT/new`),
		writes("overwrite a file outside", `echo x > @OUT/secret`),
		writes("append to a file outside", `echo x >> @OUT/secret`),
		tries("truncate a file outside", "truncate", "@OUT/secret").seen(func(o *outside, _ string) bool { return o.changed() }),
		writes("damage the database", `dd if=/dev/zero of=@OUT/perdure.db bs=1 count=4 conv=notrunc`),
		writes("delete a file outside", `rm -f @OUT/secret`),
		writes("rename a file outside", `mv @OUT/secret @OUT/other`),
		writes("make a folder outside", `mkdir @OUT/folder`),
		writes("make a pipe outside", `mkfifo @OUT/pipe`),
		writes("make a link outside", `ln -s /etc @OUT/link`),
		writes("write by ..", `echo x > @REL/secret`),
		writes("write through a symbolic link", `ln -s @OUT/secret link; echo x > link`),
		writes("write by /proc/self/root", `echo x > /proc/self/root@OUT/secret`),
		writes("copy out of the workspace", `echo x > a; cp a @OUT/b`),
		writes("move out of the workspace", `echo x > a; mv a @OUT/b`),
		writes("change another session's workspace", `echo x > @THEIRS`),
		writes("change a mode outside", `chmod 777 @OUT/secret`).inSight(),
		writes("change a time outside", `touch -c -d 2001-01-01 @OUT/secret`).inSight(),
		tries("change an attribute outside", "xattr", "@OUT/secret").inSight().seen(func(o *outside, _ string) bool { return o.changed() }),
		writes("change an owner outside", `chown 65534 @OUT/secret`).asRoot(),
		writes("forge the end of its own run", `echo '{}' > @RUN/exit.draft`).seen(func(o *outside, _ string) bool {
			_, err := os.Stat(filepath.Join(o.dir, "exit.draft"))
			return err == nil
		}),
		writes("change what it may only read", `echo x > @TOOLS/$$; echo @TOOLS/$$`).seen(leftFile),
		writes("write to the machine's /tmp", `echo x > /tmp/@NAME-$$; echo /tmp/@NAME-$$`).seen(leftFile),
		writes("write to the machine's /dev/shm", `echo x > /dev/shm/@NAME-$$; echo /dev/shm/@NAME-$$`).seen(leftFile),
		writes("make a device", `mknod device c 1 3`).asRoot().seen(func(o *outside, _ string) bool {
			st, err := os.Lstat(filepath.Join(o.workspace, "device"))
			return err == nil && st.Mode()&os.ModeCharDevice != 0
		}),
	}
}

// leftFile checks for the file whose name the command printed, on this machine.
func leftFile(_ *outside, out string) bool {
	words := strings.Fields(out)
	path := words[len(words)-1]
	_, err := os.Stat(path)
	_ = os.Remove(path)
	return err == nil
}

func processEscapes() []escape {
	ended := func(o *outside, _ string) bool { return o.victimDies() }
	return []escape{
		reads("read the environment of another process", `tr '\0' '\n' < /proc/@PID/environ`),
		reads("read the arguments of another process", `tr '\0' '\n' < /proc/@PID/cmdline`).leaky(),
		reads("read by the root of another process", `cat /proc/@PID/root@OUT/secret`),
		reads("read by the folder of another process", `cat /proc/@PID/cwd/secret`),
		reads("read by a descriptor of another process", `cat /proc/@PID/fd/0`),
		tries("open the memory of another process", "openwrite", "/proc/@PID/mem"),
		tries("open the memory of its parent", "parentmemory", "-").aimed(func(*outside) string { return "exec " + fixture("parentmemory", "-") }),
		tries("trace another process", "ptrace", "@PID"),
		tries("read memory of another process", "peek", "@PID"),
		tries("enter namespaces of another process", "setns", "@PID").asRoot(),
		tries("steal a descriptor of another process", "stealfd", "@PID"),
		tries("limit another process", "prlimit", "@PID"),
		tries("slow another process down", "renice", "@PID"),
		writes("choose who dies first", `echo 999 > /proc/@PID/oom_score_adj`).seen(func(o *outside, _ string) bool {
			b, err := os.ReadFile("/proc/" + o.pid() + "/oom_score_adj")
			return err == nil && strings.TrimSpace(string(b)) == "999"
		}),
		writes("end another process", `kill -TERM @PID`).seen(ended),
		writes("kill another process", `kill -KILL @PID`).seen(ended),
		writes("stop another process", `kill -STOP @PID`).seen(ended),
		writes("kill a process group", `kill -KILL -- -@PID`).seen(ended),
		tries("read System V memory", "sharedmemory", "").aimed(func(o *outside) string { return fixture("sharedmemory", o.segment()) }),
		reads("find the runtime's environment in its own", `env`).never().
			seen(func(_ *outside, out string) bool { return strings.Contains(out, runtimeSecret) }),
		reads("find descriptors of the runtime", `for f in /proc/self/fd/*; do readlink $f; done`).never().
			seen(func(_ *outside, out string) bool { return strings.Contains(out, runtimeFile) }),
		writes("leave a daemon behind", `setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null 2>&1 & sleep 0.1`).never().
			seen(func(o *outside, _ string) bool { return len(o.marked()) > 0 }),
	}
}

// What this process, as the runtime, has in its environment, and as an open descriptor that is
// inherited unless it is closed.
const (
	runtimeSecret = "PERDURE_TEST_SECRET"
	runtimeFile   = "go.mod"
)

func socketEscapes() []escape {
	path := func(o *outside) string { return filepath.Join(o.folder, "perdure.sock") }
	loopback := func(*outside) string { return "127.0.0.1:0" }
	return []escape{
		talks("talk to the runtime's socket", "unix", "unix", path),
		talks("talk to an abstract socket", "unix", "unix", func(o *outside) string { return "@" + o.canary }),
		talks("talk to a datagram socket by half a pair", "pair", "unixgram", path),
		talks("talk to a socket in a folder that it may read", "unix", "unix", func(o *outside) string { return filepath.Join(o.tools, o.canary) }),
		talks("talk to a port of the machine", "tcp", "tcp", loopback).leaky(),
		talks("send to a port of the machine", "udp", "udp", loopback).leaky(),
		tries("make a raw socket", "rawsocket", "-").asRoot(),
		tries("make a packet socket", "packetsocket", "-").asRoot(),
		tries("make a socket to the machine's host", "vsock", "-").ifThere(),
	}
}

func kernelEscapes() []escape {
	return []escape{
		tries("mount a file system", "mount", "@WS").asRoot().seen(func(o *outside, _ string) bool {
			mounted := strings.Contains(o.mounts(), o.workspace)
			_ = syscall.Unmount(o.workspace, syscall.MNT_DETACH)
			return mounted
		}),
		tries("change the root", "chroot", "@WS").asRoot(),
		tries("make a user namespace", "-", "-").aimed(func(*outside) string { return "echo " + attempted + "; unshare --user echo " + escaped }),
		tries("make a network namespace", "unsharenet", "-").asRoot(),
		tries("start a child in a user namespace", "clone", "-"),
		tries("use io_uring", "iouring", "-").ifThere(),
		tries("use keyrings", "keyctl", "-").ifThere(),
		tries("load into the kernel by bpf", "bpf", "-").ifThere(),
		tries("set the host name", "hostname", "-").asRoot(),
		tries("ask for the clock's discipline", "clock", "-"),
		tries("read the kernel's log", "kernellog", "-").asRoot(),
		tries("write a setting of the kernel", "sysctl", "-").asRoot(),
		writes("become another user by a setuid program", `./id -u`).asRoot().
			aimed(func(o *outside) string {
				text, err := os.ReadFile("/usr/bin/id")
				if err != nil {
					o.Fatal(err)
				}
				path := filepath.Join(o.workspace, "id")
				o.write(path, string(text))
				if err := errors.Join(os.Chmod(o.workspace, 0o755), os.Chown(path, 65534, 65534), os.Chmod(path, 0o755|os.ModeSetuid)); err != nil && os.Geteuid() == 0 {
					o.Fatal(err)
				}
				return "echo " + attempted + "; ./id -u"
			}).
			seen(func(_ *outside, out string) bool { return strings.Contains(out, "65534") && os.Geteuid() == 0 }),
	}
}

func (o *outside) mounts() string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		o.Fatal(err)
	}
	return string(b)
}

// TestS11Escapes makes every attempt in every profile.
func TestS11Escapes(t *testing.T) {
	t.Parallel()
	all := escapes()
	const least = 60
	if len(all) < least {
		t.Fatalf("there are %d escapes, S11 wants %d", len(all), least)
	}
	for name, profile := range map[string]supervise.Profile{
		"none": supervise.ProfileNone, "workspace": supervise.ProfileWorkspace, "isolated": supervise.ProfileIsolated,
		"workspace without a view": supervise.ProfileWorkspace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools := realPath(t, memoryDir(t))
			l, err := supervise.New(supervise.Config{Profile: profile, Reads: []string{self(), tools}})
			if errors.Is(err, supervise.Unenforceable) {
				for _, e := range all {
					t.Logf("%s: refused, for this machine cannot keep %s", e.name, profile)
				}
				t.Logf("it cannot, because: %v", err)
				return // refused is the expected outcome; TestProfileHolds checks whether this machine should refuse
			}
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "without a view") {
				l.WithoutView()
			}
			var through atomic.Int64
			t.Cleanup(func() {
				t.Logf("security: profile %s: %d attempts to escape, %d got through", name, len(all), through.Load())
			})
			for _, e := range all {
				t.Run(e.name, func(t *testing.T) {
					t.Parallel()
					if e.try(t, l, profile, tools) {
						through.Add(1)
					}
				})
			}
		})
	}
}

// TestEscapesAreListed: the reference says of each attempt what comes of it, and of no other.
func TestEscapesAreListed(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/reference/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "| attempt | `workspace` | `isolated` |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, e := range escapes() {
		mark, fate := "", "stopped"
		if e.closed {
			mark = " †"
		}
		if e.open {
			fate = "**gets through**"
		}
		if e.visible {
			fate = "stopped ‡"
		}
		want = append(want, fmt.Sprintf("| %s%s | %s | stopped |", e.name, mark, fate))
	}
	if got := strings.Split(table, "\n"); !slices.Equal(got, want) {
		t.Errorf("the table is\n%s\nand it should be\n%s", table, strings.Join(want, "\n"))
	}
}

// try makes the attempt, compares the outcome with the expected one, and reports whether the
// attempt succeeded.
func (e escape) try(t *testing.T, l *supervise.Local, profile supervise.Profile, tools string) bool {
	t.Helper()
	want := false
	switch profile {
	case supervise.ProfileNone:
		want = !e.closed
		if e.root && os.Geteuid() != 0 {
			want = false
		}
	case supervise.ProfileWorkspace:
		want = e.open || e.visible && !l.HasView()
	}
	o := newOutside(t)
	o.tools = tools

	out, exit := o.run(l, e.aim(o))

	got := e.reached(o, out)
	if profile == supervise.ProfileNone && e.there && !got {
		t.Logf("%s: this kernel, or this user, has no such way: %s", e.name, out)
		return false
	}
	if got != want {
		t.Errorf("%s: got through: %v, want %v; it ended with %d %s and said:\n%s", e.name, got, want, exit.Code, exit.Error, out)
	}
	const notFound = 127
	if exit.Error != "" || exit.Code == notFound || !strings.Contains(out, attempted) {
		t.Errorf("the attempt was not made: %d %s:\n%s", exit.Code, exit.Error, out)
	}
	return got
}

// beCareless makes this process a runtime with a secret, and with a file that is open without
// close-on-exec.
func beCareless() {
	if err := os.Setenv(runtimeSecret, "secret"); err != nil {
		leave(err)
	}
	if _, err := syscall.Open("../../"+runtimeFile, syscall.O_RDONLY, 0); err != nil {
		leave(fmt.Errorf("open %s: %w", runtimeFile, err))
	}
}
