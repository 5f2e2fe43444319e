package supervise_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

func isKind(err, kind error) bool { return errors.Is(err, kind) }

// TestStrangersRecord changes one field of the record of a living supervisor: it is then not ours,
// and is left alone.
func TestStrangersRecord(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]any{
		"start_time":    1,
		"boot_id":       "another-boot",
		"host":          "another-host",
		"pid_namespace": "pid:[1]",
		"pid":           1 << 22, // beyond the largest pid
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			run := s.start(s.shell(`sleep 60`))
			s.eventually("the record names the command", func() bool { return s.find(supervise.Alive).Record().CommandPID != 0 })
			var rec map[string]any
			s.edit("record", func(text string) string {
				if err := json.NewDecoder(strings.NewReader(text)).Decode(&rec); err != nil {
					t.Fatal(err)
				}
				rec[field] = value
				b, err := json.Marshal(rec)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			})

			s.find(supervise.Gone)
			if len(s.marked()) == 0 {
				t.Error("a process that is not provably ours was killed")
			}
			if err := run.Stop(s.soon(), 0); err != nil { // by the record that it had
				t.Error(err)
			}
			s.wantNobody(run)
		})
	}
}

// TestDamage breaks files of an ended run. The error names the file, and no default takes its
// place.
func TestDamage(t *testing.T) {
	t.Parallel()
	cut := func(text string) string { return text[:len(text)/2] }
	empty := func(string) string { return "" }
	more := func(text string) string { return text + "{}" }
	newer := func(text string) string { return strings.Replace(text, `"version":1`, `"version":99`, 1) }
	none := func(text string) string { return `{"version":1}` }
	for _, damage := range []struct {
		file, name string
		change     func(string) string
	}{
		{"record", "cut", cut}, {"record", "empty", empty}, {"record", "more", more}, {"record", "newer", newer}, {"record", "none", none},
		{"exit", "cut", cut}, {"exit", "empty", empty}, {"exit", "more", more}, {"exit", "newer", newer}, {"exit", "none", none},
	} {
		t.Run(damage.file+" "+damage.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			run := s.start(s.shell(`echo a; exit 3`))
			s.follow(run)

			s.edit(damage.file, damage.change)

			remains, found, err := newLocal(t).Find(s.soon(), s.dir)
			if !isKind(err, supervise.Corrupt) || !strings.Contains(err.Error(), filepath.Join(s.dir, damage.file)) {
				t.Errorf("Find answers %s, %v, %v", remains, found, err)
			}
			all, err := newLocal(t).List(s.soon(), filepath.Dir(s.dir))
			if err != nil || len(all) != 1 || !isKind(all[0].Err, supervise.Corrupt) {
				t.Errorf("List answers %+v, %v", all, err)
			}
		})
	}
}

// TestDamagedOutput damages the output of a run that has ended, and of one that is running.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"emptied":                func(string) string { return "" },
		"cut in a frame":         func(text string) string { return text[:len(text)-1] },
		"cut in a header":        func(text string) string { return text[:3] },
		"another first byte":     func(text string) string { return "\x07" + text[1:] },
		"a frame without length": func(text string) string { return "\x01\x00\x00\x00\x00" + text[5:] },
		"a frame of 4 GB":        func(text string) string { return "\x01\xff\xff\xff\xff" + text[5:] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			run := s.start(s.shell(`echo a; echo b >&2`))
			s.follow(run)

			s.edit("output", change)

			_, err := run.Follow(s.soon(), 0, func(supervise.Chunk) error { return nil })
			wantCorrupt(t, err, filepath.Join(s.dir, "output"), "offset")
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		run := s.start(s.shell(`echo a`))
		s.follow(run)

		if err := os.Remove(filepath.Join(s.dir, "output")); err != nil {
			t.Fatal(err)
		}

		_, err := run.Follow(s.soon(), 0, func(supervise.Chunk) error { return nil })
		wantCorrupt(t, err, filepath.Join(s.dir, "output"))
	})
	t.Run("emptied while it grows", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		run := s.start(s.shell(`echo a; sleep 60`))

		_, err := run.Follow(s.soon(), 0, func(supervise.Chunk) error { return os.Truncate(filepath.Join(s.dir, "output"), 0) })

		wantCorrupt(t, err, filepath.Join(s.dir, "output"), "offset 2")
	})
}

func wantCorrupt(t *testing.T, err error, says ...string) {
	t.Helper()
	if !isKind(err, supervise.Corrupt) {
		t.Fatalf("got error %v, want one of kind %q", err, supervise.Corrupt)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error %q does not say %q", err, s)
		}
	}
}

// TestFullDisk has an output file that cannot be written: the command continues, and the exit
// record says what is lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	l := newLocal(t)
	if err := l.Prepare(s.soon(), s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(s.dir, "output")); err != nil {
		t.Fatal(err)
	}

	run, err := l.Start(s.soon(), s.dir, s.shell(`echo abc; sleep 0.05; echo def; exit 3`))
	if err != nil {
		t.Fatal(err)
	}

	out, e := s.follow(run)
	if out != "" || e.Code != 3 || e.DroppedBytes != 8 || e.OutputBytes != 0 || !strings.Contains(e.OutputError, "no space") {
		t.Errorf("got output %q, exit %+v", out, e)
	}
}

// TestHalfMadeDirectories looks at what a death between two steps leaves.
func TestHalfMadeDirectories(t *testing.T) {
	t.Parallel()
	t.Run("no ticket yet", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			t.Fatal(err)
		}

		s.find(supervise.Absent)

		if _, e := s.follow(s.start(s.shell(`exit 3`))); e.Code != 3 {
			t.Errorf("got exit %+v", e)
		}
	})
	t.Run("a ticket used, and no record", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		if err := newLocal(t).Prepare(s.soon(), s.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(s.dir+"/ticket", s.dir+"/started"); err != nil {
			t.Fatal(err)
		}

		s.find(supervise.Gone)
	})
	t.Run("a record on its way", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		run := s.start(s.shell(`sleep 60`))
		s.eventually("the record has its last form", func() bool { return s.find(supervise.Alive).Record().CommandPID != 0 })
		record, draft := s.dir+"/record", s.dir+"/record.1.tmp"
		if err := os.Rename(record, draft); err != nil {
			t.Fatal(err)
		}
		arrives := time.AfterFunc(50*time.Millisecond, func() {
			if err := os.Rename(draft, record); err != nil {
				t.Error(err)
			}
		})
		defer arrives.Stop()

		s.find(supervise.Alive)

		if err := run.Stop(s.soon(), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(record, draft); err != nil {
			t.Fatal(err)
		}
		s.find(supervise.Ended) // no process is left to write it, and there is an exit record
	})
	t.Run("a command file without a supervisor", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		if err := newLocal(t).Prepare(s.soon(), s.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.dir+"/command", []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}

		s.find(supervise.Revoked)

		if _, err := os.Stat(s.dir + "/command"); err == nil {
			t.Error("the command file, and with it the environment, is still there")
		}
	})
}

// TestNoSupervisor names programs that are none.
func TestNoSupervisor(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{
		"missing":           "/there/is/no/such/program",
		"another program":   "/bin/false",
		"one that comes up": script,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			l, err := supervise.New(supervise.Config{Supervisor: program, StartTimeout: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Prepare(s.soon(), s.dir); err != nil {
				t.Fatal(err)
			}

			_, err = l.Start(s.soon(), s.dir, s.shell(`echo a`))

			if !isKind(err, supervise.NotStarted) {
				t.Errorf("Start answers %v", err)
			}
			s.find(supervise.Revoked)
			if _, err := os.Stat(s.dir + "/command"); err == nil {
				t.Error("the command file is still there")
			}
			s.eventually("what was launched is dead", func() bool {
				return len(s.processesWith("PERDURE_SUPERVISE="+s.dir)) == 0
			})
		})
	}
}

// TestInterruptedLaunch ends supervisors by a signal before they take their ticket, as Ctrl-C does
// between the fork of a supervisor and its own session. Another one is launched, so the command
// runs, unless the signals do not end or come from no terminal (RC20).
func TestInterruptedLaunch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal string
		times  int
		starts bool
	}{
		"Ctrl-C":             {"INT", 1, true},
		"Ctrl-\\ twice":      {"QUIT", 2, true},
		"hangup":             {"HUP", 1, true},
		"Ctrl-C at each one": {"INT", 3, false},
		"kill":               {"KILL", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			own, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			count, program := filepath.Join(t.TempDir(), "count"), filepath.Join(t.TempDir(), "supervisor")
			script := fmt.Sprintf(`#!/bin/sh
echo >>'%[1]s'
[ "$(wc -l <'%[1]s')" -gt %[2]d ] || kill -%[3]s $$
exec '%[4]s' "$@"
`, count, c.times, c.signal, own)
			if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			l := newLocalOf(t, program)
			if err := l.Prepare(s.soon(), s.dir); err != nil {
				t.Fatal(err)
			}

			_, err = l.Start(s.soon(), s.dir, s.shell(`echo a`))

			if c.starts && err != nil || !c.starts && !isKind(err, supervise.NotStarted) {
				t.Errorf("Start answers %v", err)
			}
			if !c.starts {
				s.find(supervise.Revoked)
			}
		})
	}
}

// TestStandsAlone looks at a supervisor and its command: what they inherit, and where they stand.
func TestStandsAlone(t *testing.T) {
	s := newScene(t) // not parallel: for a moment this process has a descriptor without close-on-exec
	file := filepath.Join(t.TempDir(), "inherited")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(file, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	run := s.start(s.shell(`readlink /proc/self/fd/*; readlink /proc/$PPID/fd/*; cat /proc/$$/stat; echo ready; sleep 60`))
	if err := syscall.Close(fd); err != nil {
		t.Fatal(err)
	}
	s.awaitOutput(run, "ready", 1)

	if err := run.Stop(s.soon(), 0); err != nil {
		t.Fatal(err)
	}

	out, _ := s.follow(run)
	if strings.Contains(out, file) {
		t.Errorf("a descriptor was inherited:\n%s", out)
	}
	if !strings.HasPrefix(out, "/dev/null\npipe:") {
		t.Errorf("the command's descriptors are\n%s", out)
	}
	if self, err := syscall.Getpgid(0); err != nil || strings.Contains(out, " "+string(rune(self))+" ") {
		t.Errorf("the command is in our group %d: %v", self, err)
	}
	if _, err := os.Stat(s.dir + "/command"); err == nil {
		t.Error("the command file, and with it the environment, is still there")
	}
}
