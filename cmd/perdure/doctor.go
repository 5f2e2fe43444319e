package main

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
	lowDisk  = 1 << 30   // bytes under which doctor warns
	noDisk   = 100 << 20 // bytes under which nothing should be begun
	clockLag = time.Minute
)

// diagnose looks at one thing after another. It changes nothing but a file that it removes again.
func diagnose(ctx context.Context, dir string) []cli.Check {
	return slices.Concat(
		[]cli.Check{checkDir(dir), checkHolder(ctx, dir), checkDatabase(ctx, dir), checkDisk(dir), checkCommands()},
		checkSandbox(),
		[]cli.Check{checkClock(ctx, dir), checkInit()},
	)
}

// checkDir tries to write where the data is, or would be.
func checkDir(dir string) cli.Check {
	check := cli.Check{Name: "data directory", Health: cli.Fine, Says: dir + " can be written"}
	if dir == "" {
		return cli.Check{Name: check.Name, Health: cli.Bad, Says: "there is no home for it", Fix: "name one with --data or PERDURE_DATA"}
	}
	var kept *sqlite.BackupError
	if errors.As(sqlite.RefuseBackup(dir), &kept) {
		return cli.Check{Name: check.Name, Health: cli.Warn, Says: dir + " is a backup, which is only read", Fix: cli.RestoreLine(dir) + "  makes a data directory of it"}
	}
	at := existing(dir)
	if at != dir {
		check.Says = dir + " is not there yet; it is made when it is needed"
	}
	f, err := os.CreateTemp(at, ".perdure-doctor-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		check.Health, check.Says = cli.Bad, at+" cannot be written: "+err.Error()
		check.Fix = "make it writable, or use --data with another directory"
	}
	return check
}

// existing returns the nearest folder at or above dir that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// checkHolder asks the kernel, not the file, whether somebody has the lock.
func checkHolder(ctx context.Context, dir string) cli.Check {
	check := cli.Check{Name: "holder", Health: cli.Fine, Says: "nobody holds the data directory"}
	held, err := lockHeld(filepath.Join(dir, sqlite.LockName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		check.Health, check.Says, check.Fix = cli.Warn, "the lock cannot be looked at: "+err.Error(), "run doctor as the owner of the data directory"
	case held:
		check.Says = holderOf(ctx, dir) + "; reading commands work beside it"
	}
	return check
}

// holderOf returns what whoever comes second is told.
func holderOf(ctx context.Context, dir string) string {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err == nil {
		return "it was held a moment ago" + closing(st.Close())
	}
	return strings.TrimPrefix(err.Error(), perdure.Conflict.Error()+": ")
}

func closing(err error) string {
	if err == nil {
		return ""
	}
	return ", and cannot be closed: " + err.Error()
}

// checkDatabase opens the database beside whoever holds it.
func checkDatabase(ctx context.Context, dir string) cli.Check {
	check := cli.Check{Name: "database", Health: cli.Fine}
	eng, err := open(ctx, cli.Opening{Access: cli.Reading, Dir: dir})
	switch {
	case errors.Is(err, perdure.NotFound):
		check.Says = "there is none yet; it is made when it is needed"
	case err != nil:
		check.Health, check.Says = cli.Bad, err.Error()
		check.Fix = "the text before says how; keep the files as they are meanwhile"
	default:
		check.Says = "opens; " + describeDatabase(filepath.Join(dir, "perdure.db"))
		if err := eng.Close(); err != nil {
			check.Health, check.Says, check.Fix = cli.Warn, err.Error(), "look at the disk"
		}
	}
	return check
}

// describeDatabase reads the header of the file: its journal mode, and which SQLite wrote it last.
func describeDatabase(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	header := make([]byte, 100)
	if _, err := f.ReadAt(header, 0); err != nil {
		return "its header cannot be read: " + err.Error()
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
	check := cli.Check{Name: "disk", Health: cli.Fine}
	free, err := freeBytes(existing(dir))
	if err != nil {
		check.Health, check.Says, check.Fix = cli.Warn, "the free space cannot be read: "+err.Error(), "look with df"
		return check
	}
	check.Says = fmt.Sprintf("%.1f GB free", float64(free)/1e9)
	if free < lowDisk {
		check.Health, check.Fix = cli.Warn, "free some space: a full disk stops everything that must be durable"
	}
	if free < noDisk {
		check.Health = cli.Bad
	}
	return check
}

// checkCommands asks whether commands can outlive this process here.
func checkCommands() cli.Check {
	check := cli.Check{Name: "commands", Health: cli.Fine, Says: "can be supervised; " + kernel()}
	if _, err := supervise.New(supervise.Config{}); err != nil {
		check.Health, check.Says = cli.Warn, err.Error()
		check.Fix = "run on Linux with /proc to use bash; everything else works here"
	}
	return check
}

// checkSandbox tries each profile of the sandbox and says what holds here: a line on all parts, and one on each profile
// that does not.
func checkSandbox() []cli.Check {
	checks := []cli.Check{{Name: "sandbox", Health: cli.Fine}}
	var holds, lacks []string
	for _, part := range supervise.Holds(supervise.Config{}) {
		if part.Holds {
			holds = append(holds, part.What)
			continue
		}
		lacks = append(lacks, part.What)
		if profile, ok := strings.CutPrefix(part.What, "profile "); ok {
			checks = append(checks, cli.Check{Name: "sandbox " + profile, Health: cli.Warn, Says: part.Why,
				Fix: "no command runs under --sandbox " + profile + " until that is mended; --unsafe-sandbox runs them with what can be kept"})
		}
	}
	checks[0].Says = "holds: " + orNothing(holds) + "; does not: " + orNothing(lacks)
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

// checkClock compares the clock with what the journal has seen of it.
func checkClock(ctx context.Context, dir string) cli.Check {
	now := time.Now()
	check := cli.Check{Name: "clock", Health: cli.Fine, Says: now.Format(time.RFC3339)}
	last := newestMoment(ctx, dir)
	switch {
	case now.Year() < 2026:
		check.Health, check.Fix = cli.Bad, "set the clock: it lies before this program was written"
	case last.Sub(now) > clockLag:
		check.Health = cli.Warn
		check.Says += ", and the journal was written at " + last.Format(time.RFC3339)
		check.Fix = "set the clock: it ran ahead before, or lags now"
	}
	return check
}

// newestMoment is when the data directory was changed last, by its own clock; zero when nothing can be read.
func newestMoment(ctx context.Context, dir string) time.Time {
	var newest time.Time
	eng, err := open(ctx, cli.Opening{Access: cli.Reading, Dir: dir})
	if err != nil {
		return newest
	}
	defer eng.Close()
	all, err := eng.Sessions(ctx, 0)
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

// checkInit warns of a container without an init, in which nobody collects the processes of dead supervisors.
func checkInit() cli.Check {
	check := cli.Check{Name: "init", Health: cli.Fine, Says: "another program is process 1"}
	name, err := os.ReadFile("/proc/1/comm")
	if os.Getpid() == 1 || err == nil && strings.TrimSpace(string(name)) == "perdure" {
		check.Health, check.Says = cli.Warn, "perdure is process 1"
		check.Fix = "give the container an init (docker run --init): perdure must not be process 1"
	}
	return check
}
