package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// ordinary is something that developers run, which a sandbox of this kind was reported to break.
type ordinary struct {
	name   string // with the report
	need   string // a program; make test brings it
	script string
	// ownView: it needs a file system of its own, or local sockets.
	ownView bool
}

const (
	writesFiles = `mkdir -p app bin && printf '{"name":"app","version":"1.0.0","bin":{"hello":"hello.js"},"scripts":{"build":"node hello.js"}}' > app/package.json &&
		printf '#!/usr/bin/env node\nconsole.log("hel" + "lo")' > app/hello.js && chmod +x app/hello.js && `
	pool = `import concurrent.futures as f
def inc(x): return x + 1
if __name__ == "__main__":
    with f.ProcessPoolExecutor(2) as e: print("fi" + "ne", sum(e.map(inc, [1, 2, 3])))
`
	sharedState = `import multiprocessing as m
from multiprocessing import shared_memory
def work(d, lock, a):
    with lock:
        d["x"] = "fi" + "ne"; a[0] = 7
if __name__ == "__main__":
    m.set_start_method(%q)
    s = shared_memory.SharedMemory(create=True, size=1 << 20)
    with m.Manager() as g:
        d, a, lock = g.dict(), m.Array("i", 1), m.Lock()
        p = m.Process(target=work, args=(d, lock, a)); p.start(); p.join()
        print(d["x"], a[0])
    s.close(); s.unlink()
`
)

func ordinaries() []ordinary {
	python := func(text string) string {
		return "cat > t.py <<'END'\n" + text + "END\n/usr/bin/python3 t.py"
	}
	return []ordinary{
		{name: "a WebAssembly memory (nodejs/node#56596)", need: "node",
			script: `node -e 'const m = new WebAssembly.Memory({initial: 10, maximum: 100}); console.log("fi" + "ne", m.buffer.byteLength)'`},
		{name: "fetch of Node, which parses in WebAssembly (langbot-app/langbot-plugin-sdk#97)", need: "node",
			script: `node -e 'const s = require("http").createServer((q, r) => r.end("fi" + "ne")).listen(0, "127.0.0.1", async () => {
				console.log(await (await fetch("http://127.0.0.1:" + s.address().port)).text()); s.close() })'`},
		{name: "many WebAssembly instances (webpack/webpack#15584)", need: "node",
			script: `node -e 'for (let i = 0; i < 20; i++) new WebAssembly.Memory({initial: 1}); console.log("fi" + "ne")'`},
		{name: "workers and children of Node", need: "node",
			script: `node -e 'const {Worker} = require("worker_threads"), {fork} = require("child_process"); require("fs").writeFileSync("c.js", "process.send(1)");
				new Worker("require(\"worker_threads\").parentPort.postMessage(1)", {eval: true}).on("message", () =>
				fork("c.js").on("message", () => console.log("fi" + "ne")))'`},
		{name: "a server on a path in the temporary directory, as tsx has (openai/codex#8343)", need: "node", ownView: true,
			script: `node -e 'const net = require("net"), path = require("os").tmpdir() + "/tsx-1000.pipe";
				const s = net.createServer(c => c.end("fi" + "ne")).listen(path, () => net.connect(path).on("data", d => { console.log(String(d)); s.close() }))'`},
		{name: "npm install, run and exec (oalders/dot-files#917)", need: "npm",
			script: writesFiles + `(cd app && npm run --silent build) && npm init -y > /dev/null && npm install --offline --no-audit --no-fund ./app > /dev/null &&
				npx --no-install hello | sed s/hello/fine/`},
		{name: "a pool of processes (openai/codex#7251)", need: "/usr/bin/python3", ownView: true, script: python(pool)},
		{name: "a spawned process with a manager (hermeticbuild/actiond#34)", need: "/usr/bin/python3", ownView: true,
			script: python(fmt.Sprintf(sharedState, "spawn"))},
		{name: "a fork server, the default of Python 3.14", need: "/usr/bin/python3", ownView: true,
			script: python(fmt.Sprintf(sharedState, "forkserver"))},
		{name: "git with a home (jordanhubbard/mac#327)", need: "git",
			script: `git config --global user.name me && git config --global user.email me@example.com && git init -q r && cd r &&
				echo x > f && git add f && git commit -qm one && git gc -q && git clone -q . ../copy && git -C ../copy log --format=%s | sed s/one/fine/`},
		{name: "a here-document and mktemp (openai/codex#33543)", need: "bash",
			script: `d=$(mktemp -d) && printf '#!/bin/sh\necho fine\n' > $d/x && chmod +x $d/x && $d/x`},
		{name: "/tmp by its name", need: "bash", ownView: true, script: `echo fine > /tmp/x && cat /tmp/x && echo y > /var/tmp/y`},
		{name: "address space that is only reserved", need: "/usr/bin/python3",
			script: python("import mmap\nm = mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\nm[0] = 1\nprint('fi' + 'ne')\n")},
		{name: "System V memory, which PostgreSQL uses", need: "perl", ownView: true,
			script: `perl -e 'use IPC::SysV qw(IPC_PRIVATE IPC_CREAT IPC_RMID S_IRUSR S_IWUSR); my $i = shmget(IPC_PRIVATE, 4096, IPC_CREAT | S_IRUSR | S_IWUSR);
				defined $i or die $!; shmctl($i, IPC_RMID, 0); print "fine\n"'`},
		{name: "a pseudo-terminal", need: "/usr/bin/python3", ownView: true, script: python("import pty\npty.spawn(['echo', 'fine'])\n")},
		{name: "the processors", need: "nproc", script: `[ $(nproc) -ge 1 ] && cat /sys/devices/system/cpu/online > /dev/null && echo fine`},
	}
}

// TestOrdinaryPrograms: the profiles run what developers run.
func TestOrdinaryPrograms(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]supervise.Profile{
		"workspace": supervise.ProfileWorkspace, "isolated": supervise.ProfileIsolated, "workspace without a view": supervise.ProfileWorkspace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireProfile(t, profile)
			l := confined(t, supervise.Config{Profile: profile})
			if strings.HasSuffix(name, "without a view") {
				l.WithoutView()
			}
			for _, c := range ordinaries() {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					if _, err := exec.LookPath(c.need); err != nil {
						t.Fatalf("ordinary programs in the sandbox: %s is missing; make test brings it", c.need)
					}
					if c.ownView && profile == supervise.ProfileWorkspace && !l.HasView() {
						return // docs/reference/sandbox.md says so
					}
					o := newOutside(t)
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // npm is slow on a busy machine
					defer cancel()

					out, exit := o.followWith(ctx, o.begin(l, c.script))

					if exit.Code != 0 || !strings.Contains(out, "fine") {
						t.Errorf("it ended with %+v and said:\n%s", exit, out)
					}
				})
			}
		})
	}
}

// TestHomeLasts: commands with the same Home share HOME and /tmp; the machine does not.
func TestHomeLasts(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		l := confined(t, supervise.Config{Profile: profile})
		first := newOutside(t)
		home := filepath.Join(filepath.Dir(first.folder), "homes", "session_1")
		out, exit := first.runAtHome(l, home, `echo alpha > $HOME/x && echo beta > $TMPDIR/y && mkdir -p $HOME/go/mod && echo z > $HOME/go/mod/f && chmod -R a-w $HOME/go/mod && echo "$HOME"`)
		if exit.Code != 0 {
			t.Fatalf("it ended with %+v and said %q", exit, out)
		}

		second := newOutside(t)
		out, exit = second.runAtHome(l, home, `cat $HOME/x $TMPDIR/y`)
		other := newOutside(t)
		elsewhere, _ := other.runAtHome(l, filepath.Join(filepath.Dir(home), "session_2"), `cat $HOME/x $TMPDIR/y `+home+`/home/x`)

		if exit.Code != 0 || out != "alpha\nbeta\n" {
			t.Errorf("the next command ended with %+v and said %q", exit, out)
		}
		if strings.Contains(elsewhere, "alpha") || strings.Contains(elsewhere, "beta") {
			t.Errorf("another session sees %q", elsewhere)
		}
		if err := supervise.RemoveHome(home); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the home is left: %v", err)
		}
	})
}

// TestHomeIsNoWayOut: what a command leaves in its home and in /tmp leads no later command out.
func TestHomeIsNoWayOut(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		l := confined(t, supervise.Config{Profile: profile})
		o := newOutside(t)
		home := filepath.Join(filepath.Dir(o.folder), "homes", "session_1")
		// It replaces its directories by links, and puts links where the mount points of the next
		// command are made, if its workspace is below /tmp.
		_, _ = o.runAtHome(l, home, o.expand(`exec 2>&1; cd /; rm -rf "$HOME" "$TMPDIR"/*; rmdir "$TMPDIR"; mv "$HOME" "$HOME.old"; ln -s @OUT "$HOME"; ln -s @OUT "$TMPDIR"
			ln -s @OUT /tmp/link; ln -s / /tmp/root; ln -s @OUT `+home+`/tmp; ln -s @OUT `+home+`/home`))

		next := newOutside(t)
		out, exit := next.runAtHome(l, home, o.expand(`exec 2>&1; echo x > "$HOME/new"; echo x > "$TMPDIR/new"; cat "$HOME/secret" "$TMPDIR/secret" /tmp/link/secret /tmp/root@OUT/secret; echo done`))

		if strings.Contains(out, o.canary) || o.changed() || !strings.HasSuffix(out, "done\n") {
			t.Errorf("changed %v; it ended with %+v and said %q", o.changed(), exit, out)
		}
	})
}

// TestWorkspaceBelowTmp: a workspace below /tmp is visible in the command's own /tmp, and links
// that an earlier command left there do not move it.
func TestWorkspaceBelowTmp(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		l := confined(t, supervise.Config{Profile: profile})
		o := newOutside(t)
		dir, err := os.MkdirTemp("/tmp", "perdure-below")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		home := filepath.Join(filepath.Dir(o.folder), "homes", "session_1")
		plant := newOutside(t)
		_, _ = plant.runAtHome(l, home, o.expand(`ln -s @OUT `+dir))
		workspace := filepath.Join(realPath(t, dir), "workspace")
		if err := os.Mkdir(workspace, 0o700); err != nil {
			t.Fatal(err)
		}

		out, exit := o.runIn(l, workspace, home, `echo in > file; pwd; touch /tmp/mine`)

		_, insideErr := os.Stat(filepath.Join(o.folder, "workspace"))
		if o.changed() || !errors.Is(insideErr, os.ErrNotExist) {
			t.Errorf("the planted link was followed: %v, %v", o.changed(), insideErr)
		}
		if exit.Error != "" { // the start is refused because of the link, and nothing else happens
			return
		}
		if text, err := os.ReadFile(filepath.Join(workspace, "file")); err != nil || string(text) != "in\n" {
			t.Errorf("got %q, %v; it ended with %+v and said %q", text, err, exit, out)
		}
	})
}

// runAtHome runs a script with a home that lasts.
func (o *outside) runAtHome(l *supervise.Local, home, script string) (string, supervise.Exit) {
	o.Helper()
	return o.runIn(l, o.workspace, home, script)
}

func (o *outside) runIn(l *supervise.Local, workspace, home, script string) (string, supervise.Exit) {
	o.Helper()
	if err := l.Prepare(o.soon(), o.dir); err != nil {
		o.Fatal(err)
	}
	run, err := l.Start(o.soon(), o.dir, supervise.Command{
		Argv: []string{"/bin/bash", "-c", "--", script}, Env: o.env(), Dir: workspace, Home: home,
	})
	if err != nil {
		o.Fatal(err)
	}
	return o.follow(run)
}
