package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/supervise"
)

// supervised manages the supervised commands of a data directory.
type supervised struct{}

func (supervised) EndProcess(ctx context.Context, p cli.Process) error {
	runner, err := supervise.New(supervise.Config{})
	if err != nil {
		return err
	}
	remains, run, err := runner.Find(ctx, p.Dir)
	if err != nil || remains != supervise.Alive {
		return err
	}
	if err := run.Stop(ctx, endGrace); err != nil && !errors.Is(err, supervise.Vanished) {
		return fmt.Errorf("end %d: %w", p.PID, err)
	}
	return nil
}

// endGrace is the grace period of a command that nobody waits for.
const endGrace = 5 * time.Second

func (supervised) Processes(ctx context.Context, o cli.OpenOptions) ([]cli.Process, error) {
	runner, err := supervise.New(supervise.Config{})
	if err != nil {
		return nil, err
	}
	root := filepath.Join(o.Dir, runsFolder)
	found, err := runner.List(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", root, err)
	}
	owners, err := runOwners(ctx, o)
	if err != nil {
		return nil, err
	}
	var all []cli.Process
	for _, f := range found {
		p := cli.Process{Dir: f.Dir, State: f.Remains.String()}
		if f.Err != nil {
			p.State, p.Error = "damaged", f.Err.Error()
		}
		if f.Run != nil {
			rec := f.Run.Record()
			p.PID, p.Supervisor, p.Program, p.StartedAt = rec.CommandPID, rec.PID, rec.Program, rec.StartedAt
		}
		name, _, _ := strings.Cut(filepath.Base(f.Dir), "-")
		p.Owner = owners[name]
		all = append(all, p)
	}
	return all, nil
}

// runOwners maps the prefix of run directories, as tool/shell creates it, to the task or call that
// owns them. Without a database there are no owners.
func runOwners(ctx context.Context, o cli.OpenOptions) (map[string]string, error) {
	owners := map[string]string{}
	eng, err := Program{}.open(ctx, o)
	if errors.Is(err, perdure.NotFound) {
		return owners, nil
	}
	if err != nil {
		return nil, err
	}
	defer eng.Close()
	sessions, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for _, s := range sessions {
		calls, err := eng.Calls().List(ctx, s.ID)
		if err != nil {
			return nil, fmt.Errorf("list calls of %s: %w", s.ID, err)
		}
		for _, c := range calls {
			owner := c.Key.String()
			if c.Task != "" {
				owner = string(c.Task)
			}
			owners[runName(c.Key)] = owner
		}
	}
	return owners, nil
}

// runName returns the prefix of the run directories of a call, as tool/shell creates it.
func runName(key perdure.CallKey) string {
	sum := sha256.Sum256([]byte(key.String()))
	return hex.EncodeToString(sum[:16])
}
