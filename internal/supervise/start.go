package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// exitNoTicket is the exit status of a supervisor that finds no ticket to take.
const exitNoTicket = 3

// onStep is called with the run directory and each step of the ticket protocol that this process
// has reached, in the runtime and in the supervisor. Only the tests of this package set it, to kill
// the process at that step.
var onStep = func(dir, step string) {}

// Start implements Runner.
func (l *Local) Start(ctx context.Context, dir string, c Command) (Run, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.reap()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", dir, err)
	}
	rec, err := l.start(ctx, dir, c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", dir, err)
	}
	return &localRun{local: l, dir: dir, rec: rec}, nil
}

func (l *Local) start(ctx context.Context, dir string, c Command) (Record, error) {
	if err := c.Check(); err != nil {
		return Record{}, err
	}
	if err := checkTicket(dir); err != nil {
		return Record{}, err
	}
	f := newCommandFile(l.machine.host, c)
	var err error
	if f.Sandbox, err = l.sandboxOrder(dir, c); err != nil {
		return Record{}, failStart(dir, err)
	}
	if f.Sandbox != nil {
		f.Version = confinedVersion
	}
	if err := writeCommand(dir, f); err != nil {
		return Record{}, failStart(dir, fmt.Errorf("write command: %w", err))
	}
	onStep(dir, "runtime wrote command")
	var rec Record
	for left := maxLaunches - 1; ; left-- {
		rec, err = l.launch(ctx, dir, c, left == 0)
		if !errors.Is(err, interrupted) {
			break
		}
	}
	onStep(dir, "runtime started")
	return rec, err
}

// maxLaunches is how many supervisors are launched for a run at most. Each but the last was ended
// by a signal of the terminal.
const maxLaunches = 3

// interrupted is the error of a supervisor that a signal of the terminal ended before it took the
// ticket. Between its fork and its own session it is still in the process group of this process, so
// that Ctrl-C reaches it. Nothing has happened yet, so another one can be launched.
var interrupted = errors.New("a signal of the terminal ended the supervisor before it began")

// launch launches a supervisor and waits until the command has started. last says that no other
// supervisor is launched after this one, so it never returns interrupted.
func (l *Local) launch(ctx context.Context, dir string, c Command, last bool) (Record, error) {
	pass, err := newSecretPipe(c.Secrets)
	if err != nil {
		return Record{}, failStart(dir, fmt.Errorf("pass the secrets: %w", err))
	}
	defer pass.close()
	pid, err := launch(l.supervisor, dir, pass.reader)
	if err != nil {
		return Record{}, failStart(dir, fmt.Errorf("launch supervisor %s: %w", l.supervisor, err))
	}
	pass.launched()
	onStep(dir, "runtime launched")
	rec, reaped, err := l.awaitStart(ctx, dir, pid, last)
	if !reaped {
		l.adoptChild(pid)
	}
	return rec, err
}

// writeCommand neither syncs nor replaces atomically: only the supervisor that we launch next reads
// the file.
func writeCommand(dir string, f commandFile) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, commandName), b, 0o600)
}

// adoptChild leaves pid to reap. Before that only Start waits for it, so that Start sees its exit
// status.
func (l *Local) adoptChild(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.children[pid] = true
}

// awaitStart waits until our supervisor has the ticket and its record, or never will, and reports
// whether it has reaped the supervisor.
func (l *Local) awaitStart(ctx context.Context, dir string, pid int, last bool) (Record, bool, error) {
	late := time.NewTimer(l.startTimeout)
	defer late.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		ended, code, by := reapChild(pid)
		rec, err := readRecord(dir)
		switch {
		case err == nil && rec.PID == pid:
			return rec, ended, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return Record{}, ended, err
		case ended && code == exitNoTicket:
			return Record{}, true, failStart(dir, checkTicket(dir))
		case ended && ofTerminal(by) && !last && checkTicket(dir) == nil:
			return Record{}, true, interrupted
		case ended:
			return Record{}, true, failStart(dir, fmt.Errorf("supervisor ended with status %d, stderr: %s", code, supervisorStderr(dir)))
		}
		select {
		case <-ctx.Done():
			return Record{}, false, context.Cause(ctx)
		case <-late.C:
			err := failStart(dir, fmt.Errorf("the supervisor did not start within %v", l.startTimeout))
			if errors.Is(err, NotStarted) {
				// The program may not call Entry and thus be no supervisor at all. The pid is ours,
				// since we have not reaped it.
				err = errors.Join(err, killChild(pid))
			}
			return Record{}, false, err
		case <-look.C:
		}
	}
}

// ofTerminal reports whether a terminal sends this signal to the processes in its foreground.
func ofTerminal(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGHUP
}

// failStart revokes the ticket, so that the failure is final, and adds NotStarted. If the ticket
// was used after all, it returns why unchanged, and Find decides.
func failStart(dir string, why error) error {
	state, err := revoke(dir)
	if err != nil {
		return errors.Join(why, err)
	}
	if state == revokedName && !errors.Is(why, NotStarted) {
		return fmt.Errorf("%w: %w", NotStarted, why)
	}
	return why
}

// checkTicket returns why dir cannot be started; nil: its ticket is unused.
func checkTicket(dir string) error {
	switch state, err := ticketState(dir); {
	case err != nil:
		return err
	case state == ticketName:
		return nil
	case state == startedName:
		return Spent
	case state == revokedName:
		return fmt.Errorf("%w: the ticket was revoked", NotStarted)
	}
	return errors.New("the run directory was not prepared")
}

// supervisorStderr returns the beginning of what the supervisor wrote to its stderr.
func supervisorStderr(dir string) string {
	const maxBytes = 4 << 10
	f, err := os.Open(filepath.Join(dir, stderrName))
	if err != nil {
		return "nothing"
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if text := strings.TrimSpace(string(b)); err == nil && text != "" {
		return text
	}
	return "nothing"
}
