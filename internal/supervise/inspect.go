package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Inspection is what is known of a run at one moment.
type Inspection struct {
	Remains Remains
	Record  Record        // zero: the run has none
	Exit    *Exit         // nil unless Ended
	Tree    []TreeProcess // the running processes, each after its parent; at most maxTree of them
	Count   int           // of all running processes
	// CPU is what the run has used so far, with its ended processes. After the end, Exit has it.
	CPU   time.Duration
	Files []OutputFile // of the output, and of the errors of the supervisor itself
}

// maxTree is how many processes an Inspection names.
const maxTree = 200

// TreeProcess is a running process of a command.
type TreeProcess struct {
	PID, Parent, Group int
	State              byte // as proc(5) has it: R, S, D, T, …
	Threads            int
	StartedAt          time.Time
	// CommandLine is the program with its arguments, as the process shows them; only its name if it
	// shows none, or more than maxCommandLine bytes. It may have secrets.
	CommandLine string
	Dir         string        // the working directory; empty: it cannot be read
	CPU         time.Duration // of the process alone, without its children
	MemoryBytes int64         // resident, with what it shares with others
	PeakBytes   int64         // the largest MemoryBytes so far; zero: not known
}

// maxCommandLine is the maximum length of a CommandLine in bytes. A longer one is not cut, because
// the cut could leave half of a secret.
const maxCommandLine = 32 << 10

// OutputFile is a file of a run directory.
type OutputFile struct {
	Path  string
	Bytes int64
}

// Inspect implements Runner.
func (l *Local) Inspect(ctx context.Context, dir string) (Inspection, error) {
	if ctx.Err() != nil {
		return Inspection{}, context.Cause(ctx)
	}
	l.reap()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect %s: %w", dir, err)
	}
	found, err := l.inspect(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && found.Remains == Alive && !l.alive(found.Record) {
		found, err = l.inspect(ctx, dir) // it ended or was removed in the meantime
	}
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect %s: %w", dir, err)
	}
	return found, nil
}

func (l *Local) inspect(ctx context.Context, dir string) (found Inspection, err error) {
	state, err := ticketState(dir)
	if err != nil {
		return found, err
	}
	var run Run
	found.Remains, run, err = l.stateOf(ctx, dir, state)
	if err != nil || found.Remains == Absent {
		return found, err
	}
	if found.Files, err = outputFiles(dir); err != nil {
		return found, err
	}
	switch found.Remains {
	case Ended:
		found.Record = run.Record()
		exit, _, err := readExit(dir)
		found.Exit = &exit
		return found, err
	case Alive, Gone:
		// Read again, since the pid of the command is added late. A run that is Gone may have none.
		if found.Record, err = readRecord(dir); err != nil && found.Remains == Gone {
			return found, nil
		}
		if err == nil && l.machine.isOwn(found.Record) {
			err = found.addTree()
		}
	}
	return found, err
}

// outputFiles lists the files of the output that are not empty.
func outputFiles(dir string) (files []OutputFile, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if name := e.Name(); name != outputName && name != stderrName && !strings.HasPrefix(name, outputName+".") {
			continue
		}
		// A file of the ring may have been replaced in the meantime.
		if st, err := e.Info(); err == nil && st.Size() > 0 {
			files = append(files, OutputFile{filepath.Join(dir, e.Name()), st.Size()})
		}
	}
	return files, nil
}
