package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/store/sqlite"
)

const (
	findingsTime  = 30 * time.Second // for which findings of doctor are served again: the checks start processes
	shownProblems = 100              // of a verification
)

// serverMachine answers questions about the process and its data directory for the API.
type serverMachine struct {
	dir      string
	postgres bool

	verifying sync.Mutex       // guards verified, stopping and stop
	verified  api.Verification // the last one, or the running one
	stopping  bool
	running   sync.WaitGroup
	stop      context.CancelFunc // ends the running verification; nil: none was started

	checking sync.Mutex // guards found and foundAt
	found    []api.Finding
	foundAt  time.Time
}

func newServerMachine(dir string, postgres bool) *serverMachine {
	return &serverMachine{dir: dir, postgres: postgres, verified: api.Verification{State: "none", Problems: []string{}}}
}

// api returns the answers for the API.
func (m *serverMachine) api() api.Machine {
	v := version()
	answers := api.Machine{
		Build: api.Build{Version: v.Version, Revision: v.Revision, Date: v.Date, Modified: v.Modified, Go: v.Go, Platform: v.Platform,
			SQLite: sqlite.LibraryVersion},
		Storage: m.storage, Diagnose: m.findings, Egress: m.rules, Verification: m.verification,
	}
	if !m.postgres {
		answers.Verify = m.verify
	}
	return answers
}

// storage measures the data directory.
func (m *serverMachine) storage(ctx context.Context) (s api.Storage, err error) {
	s.Store = postgresStore
	if s.Path, err = filepath.Abs(m.dir); err != nil {
		return s, err
	}
	if !m.postgres {
		s.Store = sqliteStore
		name := filepath.Join(m.dir, sqlite.DatabaseName)
		if s.DatabaseBytes, err = fileBytes(name); err == nil {
			s.LogBytes, err = fileBytes(name + "-wal")
		}
	}
	if err == nil {
		s.BlobBytes, err = folderBytes(ctx, filepath.Join(m.dir, backup.BlobFolder))
	}
	if err != nil {
		return s, fmt.Errorf("%w: measure data directory %s: %w", perdure.Storage, m.dir, err)
	}
	if free, err := freeBytes(m.dir); err == nil {
		s.FreeBytes = free
	}
	last, err := backup.ReadLast(m.dir)
	if err == nil {
		s.LastBackup = &api.LastBackup{CreatedAt: last.CreatedAt, Path: last.To, SizeBytes: last.SizeBytes}
	}
	if errors.Is(err, perdure.NotFound) {
		err = nil
	}
	return s, err
}

// fileBytes returns the size of a file; 0 if there is none.
func fileBytes(name string) (int64, error) {
	found, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return found.Size(), nil
}

// folderBytes returns the size of all files of a folder; 0 if there is none. Files may disappear
// meanwhile.
func folderBytes(ctx context.Context, folder string) (n int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || ctx.Err() != nil || !entry.Type().IsRegular() {
			return errors.Join(err, context.Cause(ctx))
		}
		about, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			n += about.Size()
		}
		return err
	})
	return n, err
}

// rules returns the egress rules, as the next request applies them.
func (m *serverMachine) rules() api.EgressRules {
	r, err := egress.ReadRules(filepath.Join(m.dir, egress.RulesFile))
	list := func(patterns []string) []string { return append([]string{}, patterns...) }
	rules := api.EgressRules{Allowed: list(r.Allowed), Blocked: list(r.Blocked), Private: list(r.Private), Webhooks: list(r.Webhooks)}
	if err != nil {
		rules.Broken = err.Error()
	}
	return rules
}

// findings runs the checks of doctor, except for those of MCP servers: connections show their
// states. Callers that ask at the same time share one run.
func (m *serverMachine) findings(ctx context.Context) ([]api.Finding, error) {
	m.checking.Lock()
	defer m.checking.Unlock()
	if err := context.Cause(ctx); err != nil {
		return nil, err // the caller has waited for another one
	}
	if m.found != nil && time.Since(m.foundAt) < findingsTime {
		return m.found, nil
	}
	found := []api.Finding{}
	for _, check := range diagnoseMachine(ctx, m.dir, nil) {
		found = append(found, api.Finding{Name: check.Name, Health: string(check.Health), Detail: check.Detail, Fix: check.Fix})
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err // what was canceled says nothing
	}
	m.found, m.foundAt = found, time.Now()
	return found, nil
}

func (m *serverMachine) verification() api.Verification {
	m.verifying.Lock()
	defer m.verifying.Unlock()
	return m.verified
}

// verify starts a verification in the background, unless one is running. It continues when its
// caller is gone, and ends with the process.
func (m *serverMachine) verify() (api.Verification, error) {
	m.verifying.Lock()
	defer m.verifying.Unlock()
	if m.stopping {
		return m.verified, fmt.Errorf("%w: the server stops", perdure.Unavailable)
	}
	if m.verified.State == "running" {
		return m.verified, nil
	}
	m.verified = api.Verification{State: "running", StartedAt: time.Now().UTC(), Problems: []string{}}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.running.Go(func() {
		defer stop()
		found := m.verifyAll(ctx)
		m.verifying.Lock()
		defer m.verifying.Unlock()
		found.StartedAt, found.EndedAt = m.verified.StartedAt, time.Now().UTC()
		m.verified = found
	})
	return m.verified, nil
}

// verifyAll verifies the data directory.
func (m *serverMachine) verifyAll(ctx context.Context) api.Verification {
	rep, err := backup.Verify(ctx, m.dir)
	v := api.Verification{State: "intact", Problems: append([]string{}, rep.Problems[:min(len(rep.Problems), shownProblems)]...), Sessions: rep.Sessions,
		Events: rep.Events, Calls: rep.Calls, Tasks: rep.Tasks, Blobs: rep.Blobs, Audited: rep.Audited}
	switch {
	case err != nil:
		v.State, v.Error = "failed", err.Error()
	case len(v.Problems) > 0:
		v.State = "damaged"
	}
	return v
}

// close ends a verification that is running.
func (m *serverMachine) close() {
	m.verifying.Lock()
	m.stopping = true
	if m.stop != nil {
		m.stop()
	}
	m.verifying.Unlock()
	m.running.Wait()
}
