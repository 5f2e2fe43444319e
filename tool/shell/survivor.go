package shell

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// baseName is the file in a run directory that holds the length of the task's log at the start of
// the command, in decimal. It does not exist if the log was empty.
const baseName = "log_base"

// Prepare implements tool.Adoptable. If this execution was already started or revoked, for instance
// when a spawn is repeated (TK1), there is nothing to prepare; the start itself ensures that it
// runs only once.
func (b *Bash) Prepare(ctx context.Context, call tool.Call) error {
	if err := b.runner.Prepare(ctx, b.runDir(call)); err != nil && !errors.Is(err, supervise.Spent) {
		return fmt.Errorf("prepare command: %w", err)
	}
	return nil
}

// Inspect implements tool.Adoptable. If the supervisor is gone, nothing is known of the command,
// and its effect class decides.
func (b *Bash) Inspect(ctx context.Context, call tool.Call) (perdure.ExecutionRemains, error) {
	remains, _, err := b.runner.Find(ctx, b.runDir(call))
	if err != nil {
		return "", fmt.Errorf("look for command: %w", err)
	}
	switch remains {
	case supervise.Revoked:
		return perdure.RemainsUnstarted, nil
	case supervise.Alive:
		return perdure.RemainsAlive, nil
	case supervise.Ended:
		return perdure.RemainsEnded, nil
	}
	return perdure.RemainsNone, nil
}

// Adopt implements tool.Adoptable. It reads the output from the start, because the result must show
// it, and reports only what the log does not have.
func (b *Bash) Adopt(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	dir := b.runDir(call)
	remains, run, err := b.find(ctx, dir)
	switch {
	case err != nil:
		return tool.Internal(fmt.Errorf("adopt command: %w", err))
	case remains == supervise.Gone:
		return orphaned()
	case run == nil:
		return refused(tool.Internal(fmt.Errorf("adopt command: %s is %s", dir, remains)))
	}
	base, err := readBase(dir)
	if err != nil {
		return tool.Internal(fmt.Errorf("adopt command: %w", err))
	}
	out := b.newOutput(call, env, sink)
	out.known = env.LogBytes - base
	return b.follow(ctx, dir, run, out)
}

// Stop implements tool.Adoptable. The grace period lies between SIGTERM and SIGKILL.
func (b *Bash) Stop(ctx context.Context, call tool.Call) error { return b.end(ctx, call, b.grace) }

// Force implements tool.Forcer: SIGKILL follows SIGTERM at once.
func (b *Bash) Force(ctx context.Context, call tool.Call) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupWait)
	defer cancel()
	return b.end(ctx, call, 0)
}

// end stops what is left of an execution, with a grace period.
func (b *Bash) end(ctx context.Context, call tool.Call, grace time.Duration) error {
	dir := b.runDir(call)
	_, run, err := b.runner.Find(ctx, dir)
	if err == nil && run != nil {
		err = run.Stop(ctx, grace)
	}
	if errors.Is(err, supervise.Vanished) {
		_, _, err = b.runner.Find(ctx, dir) // kills the remains of a dead supervisor
	}
	if err != nil {
		return fmt.Errorf("stop command: %w", err)
	}
	return nil
}

// Clean implements tool.Cleaner. The execution after the last one may have an unused start ticket.
func (b *Bash) Clean(ctx context.Context, call tool.Call) error {
	var errs []error
	for call.Execution++; call.Execution > 0; call.Execution-- {
		if err := b.runner.Remove(ctx, b.runDir(call)); err != nil {
			errs = append(errs, fmt.Errorf("remove command: %w", err))
		}
	}
	return errors.Join(errs...)
}

// runDir returns the run directory of an execution. Call ids come from outside, so they are hashed.
// A task is named by the call id of its run.
func (b *Bash) runDir(call tool.Call) string {
	key := perdure.CallKey{Session: call.Session, Call: call.ID}
	sum := sha256.Sum256([]byte(key.String()))
	return filepath.Join(b.runs, hex.EncodeToString(sum[:16])+"-"+strconv.Itoa(call.Execution))
}

// writeBase stores the length of the log, durably, before the command starts.
func writeBase(dir string, base int64) error {
	if base == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, baseName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(base, 10) + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

func readBase(dir string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, baseName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
