package app

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/store/sqlite"
)

const (
	lowDisk  = 1 << 30   // doctor warns below this number of bytes
	noDisk   = 100 << 20 // no work should be started below this number of bytes
	clockLag = time.Minute
)

// diagnose runs all checks. It changes nothing, except for a temporary file.
func (p Program) diagnose(ctx context.Context, dir string) []cli.Check {
	checks := diagnoseMachine(ctx, dir, checkMCP(ctx, dir))
	if p.Diagnose != nil {
		checks = append(checks, p.Diagnose(ctx, dir)...)
	}
	return checks
}

// diagnoseMachine runs all checks but those of MCP servers, which start the servers. others are
// listed with them.
func diagnoseMachine(ctx context.Context, dir string, others []cli.Check) []cli.Check {
	return slices.Concat(
		[]cli.Check{checkDir(dir), checkHolder(ctx, dir), checkDatabase(ctx, dir), checkDisk(dir), checkCommands()},
		checkSandbox(),
		others,
		[]cli.Check{checkClock(ctx, dir), checkInit()},
	)
}

// checkDir checks that the data directory is writable, or can be created.
func checkDir(dir string) cli.Check {
	check := cli.Check{Name: "data directory", Health: cli.HealthOK, Detail: dir + " is writable"}
	if dir == "" {
		return cli.Check{Name: check.Name, Health: cli.HealthError, Detail: "this user has no home directory",
			Fix: "set a data directory with --data or PERDURE_DATA"}
	}
	var kept *sqlite.BackupError
	if errors.As(sqlite.RefuseBackup(dir), &kept) {
		return cli.Check{Name: check.Name, Health: cli.HealthWarning, Detail: dir + " is a backup, which cannot be used for work",
			Fix: "restore it: " + cli.RestoreLine(dir)}
	}
	at := existing(dir)
	if at != dir {
		check.Detail = dir + " does not exist yet; it is created when needed"
	}
	f, err := os.CreateTemp(at, ".perdure-doctor-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		check.Health, check.Detail = cli.HealthError, at+" is not writable: "+err.Error()
		check.Fix = "make it writable, or use another directory with --data"
	}
	return check
}

// existing returns the nearest existing folder at or above dir.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// checkHolder asks the kernel whether a process holds the lock; the content of the lock file may be
// outdated.
func checkHolder(ctx context.Context, dir string) cli.Check {
	check := cli.Check{Name: "holder", Health: cli.HealthOK, Detail: "no process holds the data directory"}
	held, err := lockHeld(filepath.Join(dir, sqlite.LockName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		check.Health, check.Detail, check.Fix = cli.HealthWarning, "cannot check the lock: "+err.Error(),
			"run doctor as the owner of the data directory"
	case held:
		check.Detail = holderOf(ctx, dir) + "; commands that only read still work"
	}
	return check
}

// holderOf says who works with the data directory, which the error of a second holder describes.
func holderOf(ctx context.Context, dir string) string {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err == nil {
		return "it was held until a moment ago" + closing(st.Close())
	}
	if _, who, ok := strings.Cut(err.Error(), " is held by "); ok {
		who, _, _ = strings.Cut(who, ";")
		return "in use by " + who + ": fine"
	}
	return strings.TrimPrefix(err.Error(), perdure.Conflict.Error()+": ")
}

func closing(err error) string {
	if err == nil {
		return ""
	}
	return ", but closing it failed: " + err.Error()
}

// checkDatabase opens the database read-only.
func checkDatabase(ctx context.Context, dir string) cli.Check {
	check := cli.Check{Name: "database", Health: cli.HealthOK}
	eng, err := Program{}.open(ctx, cli.OpenOptions{Access: cli.Reading, Dir: dir})
	switch {
	case errors.Is(err, perdure.NotFound):
		check.Detail = "does not exist yet; it is created when needed"
	case err != nil:
		check.Health, check.Detail = cli.HealthError, err.Error()
		check.Fix = "do what the message says; do not change the files meanwhile"
		if foreign := (*sqlite.NotDatabaseError)(nil); errors.As(err, &foreign) {
			check.Fix = "move " + foreign.Path + " away, or use another directory with --data"
		}
	default:
		check.Detail = "opens; " + describeDatabase(filepath.Join(dir, "perdure.db"))
		if err := eng.Close(); err != nil {
			check.Health, check.Detail, check.Fix = cli.HealthWarning, err.Error(), "check the disk"
		}
	}
	return check
}

// describeDatabase reads the header of the file: its journal mode, and the version of SQLite that
// wrote it last.
func describeDatabase(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	header := make([]byte, 100)
	if _, err := f.ReadAt(header, 0); err != nil {
		return "cannot read its header: " + err.Error()
	}
	mode := "rollback journal"
	if header[18] == 2 && header[19] == 2 {
		mode = "wal"
	}
	wrote := binary.BigEndian.Uint32(header[96:])
	return fmt.Sprintf("journal mode %s, written by SQLite %d.%d.%d, driver %s",
		mode, wrote/1_000_000, wrote/1_000%1_000, wrote%1_000, driverVersion())
}

func driverVersion() string {
	build, _ := debug.ReadBuildInfo()
	if build == nil {
		return "unknown"
	}
	for _, m := range build.Deps {
		if m.Path == "modernc.org/sqlite" {
			return m.Version
		}
	}
	return "unknown"
}

func checkDisk(dir string) cli.Check {
	check := cli.Check{Name: "disk", Health: cli.HealthOK}
	free, err := freeBytes(existing(dir))
	if err != nil {
		check.Health, check.Detail, check.Fix = cli.HealthWarning, "cannot determine the free space: "+err.Error(), "check with df"
		return check
	}
	check.Detail = fmt.Sprintf("%.1f GB free", float64(free)/1e9)
	if free < lowDisk {
		check.Health, check.Fix = cli.HealthWarning, "free some space: a full disk stops all durable work"
	}
	if free < noDisk {
		check.Health = cli.HealthError
	}
	return check
}

// checkCommands checks whether commands can run under a supervisor.
func checkCommands() cli.Check {
	check := cli.Check{Name: "commands", Health: cli.HealthOK, Detail: "can be supervised; " + kernel()}
	if _, err := supervise.New(supervise.Config{}); err != nil {
		check.Health, check.Detail = cli.HealthWarning, err.Error()
		check.Fix = "use Linux with /proc to run commands with bash; everything else works here"
	}
	return check
}

// checkSandbox tests each profile of the sandbox. It returns one line about all features, and one
// for each profile that does not work.
func checkSandbox() []cli.Check {
	checks := []cli.Check{{Name: "sandbox", Health: cli.HealthOK}}
	var holds, lacks []string
	for _, part := range supervise.Enforced(supervise.Config{}) {
		if part.Enforced {
			holds = append(holds, part.Part)
			continue
		}
		lacks = append(lacks, part.Part)
		if part.Part == supervise.ViewPart {
			checks = append(checks, cli.Check{Name: "sandbox files", Health: cli.HealthWarning, Detail: part.Why,
				Fix: "permit this user to create user namespaces, or give the container the right to create namespaces; " +
					"until then commands have no /tmp, no /dev/shm and no local sockets with --sandbox workspace"})
		}
		if profile, ok := strings.CutPrefix(part.Part, "profile "); ok {
			checks = append(checks, cli.Check{Name: "sandbox " + profile, Health: cli.HealthWarning, Detail: part.Why,
				Fix: "commands cannot run with --sandbox " + profile +
					" until this is fixed; --unsafe-sandbox runs them with what can be enforced"})
		}
	}
	checks[0].Detail = "works: " + orNothing(holds) + "; does not work: " + orNothing(lacks)
	return checks
}

func orNothing(parts []string) string {
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return runtime.GOOS + " " + strings.TrimSpace(string(release))
}

// checkClock compares the clock with the newest time in the journals.
func checkClock(ctx context.Context, dir string) cli.Check {
	now := time.Now()
	check := cli.Check{Name: "clock", Health: cli.HealthOK, Detail: now.Format(time.RFC3339)}
	last := newestMoment(ctx, dir)
	switch {
	case now.Year() < 2026:
		check.Health, check.Fix = cli.HealthError, "set the clock: it shows a time before this program was written"
	case last.Sub(now) > clockLag:
		check.Health = cli.HealthWarning
		check.Detail += ", but the journal was written at " + last.Format(time.RFC3339)
		check.Fix = "set the clock: it was ahead before, or is behind now"
	}
	return check
}

// newestMoment returns the time of the last change in the data directory; zero when nothing can be
// read.
func newestMoment(ctx context.Context, dir string) time.Time {
	var newest time.Time
	eng, err := Program{}.open(ctx, cli.OpenOptions{Access: cli.Reading, Dir: dir})
	if err != nil {
		return newest
	}
	defer eng.Close()
	all, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return newest
	}
	for _, s := range all {
		if s.UpdatedAt.After(newest) {
			newest = s.UpdatedAt
		}
	}
	return newest
}

// checkInit warns about a container without an init process, where nobody reaps the processes of
// dead supervisors.
func checkInit() cli.Check {
	check := cli.Check{Name: "init", Health: cli.HealthOK, Detail: "process 1 is another program"}
	name, err := os.ReadFile("/proc/1/comm")
	if os.Getpid() == 1 || err == nil && strings.TrimSpace(string(name)) == "perdure" {
		check.Health, check.Detail = cli.HealthWarning, "perdure is process 1"
		check.Fix = "give the container an init (docker run --init): perdure must not be process 1"
	}
	return check
}
