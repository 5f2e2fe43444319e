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
	"time"
)

// exitNoTicket is the exit status of a supervisor that came too late for its ticket.
const exitNoTicket = 3

// reached is told the run directory and each step of the ticket protocol that this process has come to, runtime or
// supervisor. It is not changed while the program runs: only the tests of this package set it, to die there.
var reached = func(dir, step string) {}

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
	if f.Sandbox, err = l.order(dir, c); err != nil {
		return Record{}, giveUp(dir, err)
	}
	if f.Sandbox != nil {
		f.Version = confinedVersion
	}
	if err := writeCommand(dir, f); err != nil {
		return Record{}, giveUp(dir, fmt.Errorf("write command: %w", err))
	}
	reached(dir, "runtime wrote command")
	pid, err := launch(l.supervisor, dir)
	if err != nil {
		return Record{}, giveUp(dir, fmt.Errorf("launch supervisor %s: %w", l.supervisor, err))
	}
	reached(dir, "runtime launched")
	rec, reaped, err := l.awaitStart(ctx, dir, pid)
	if !reaped {
		l.adoptChild(pid)
	}
	reached(dir, "runtime started")
	return rec, err
}

// writeCommand is not synced, nor atomic: only the supervisor that we launch next reads it.
func writeCommand(dir string, f commandFile) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, commandName), b, 0o600)
}

// adoptChild leaves pid to reap. Until then nobody else waits for it, so its exit code is Start's to see.
func (l *Local) adoptChild(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.children[pid] = true
}

// awaitStart waits until our supervisor has the ticket and its record, or will never have it, and says whether it has
// reaped the supervisor.
func (l *Local) awaitStart(ctx context.Context, dir string, pid int) (Record, bool, error) {
	late := time.NewTimer(l.startTimeout)
	defer late.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		ended, code := reapChild(pid)
		rec, err := readRecord(dir)
		switch {
		case err == nil && rec.PID == pid:
			return rec, ended, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return Record{}, ended, err
		case ended && code == exitNoTicket:
			return Record{}, true, giveUp(dir, checkTicket(dir))
		case ended:
			return Record{}, true, giveUp(dir, fmt.Errorf("supervisor ended with status %d and said: %s", code, supervisorSaid(dir)))
		}
		select {
		case <-ctx.Done():
			return Record{}, false, context.Cause(ctx)
		case <-late.C:
			err := giveUp(dir, fmt.Errorf("no supervisor came up within %v", l.startTimeout))
			if errors.Is(err, NotStarted) {
				// It may be no supervisor at all, but a program without Entry. The pid is safe: we have not reaped it.
				err = errors.Join(err, killChild(pid))
			}
			return Record{}, false, err
		case <-look.C:
		}
	}
}

// giveUp revokes the ticket, so that what went wrong is final, and adds NotStarted. Where the ticket was used after all,
// the error stays as it is: Find knows more.
func giveUp(dir string, why error) error {
	state, err := revoke(dir)
	if err != nil {
		return errors.Join(why, err)
	}
	if state == revokedName && !errors.Is(why, NotStarted) {
		return fmt.Errorf("%w: %w", NotStarted, why)
	}
	return why
}

// checkTicket says why dir cannot be started, or nothing where its ticket is there.
func checkTicket(dir string) error {
	switch state, err := ticketState(dir); {
	case err != nil:
		return err
	case state == ticketName:
		return nil
	case state == startedName:
		return Spent
	case state == revokedName:
		return fmt.Errorf("%w: its ticket was revoked", NotStarted)
	}
	return errors.New("it was not prepared")
}

// supervisorSaid returns the end of what the supervisor wrote to its stderr.
func supervisorSaid(dir string) string {
	const most = 4 << 10
	f, err := os.Open(filepath.Join(dir, stderrName))
	if err != nil {
		return "nothing"
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most))
	if text := strings.TrimSpace(string(b)); err == nil && text != "" {
		return text
	}
	return "nothing"
}
