package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/perdure/perdure"
)

// RulesFile is the name of the file of a data directory that holds its Rules.
const RulesFile = "egress.json"

// ForWebhooks is the purpose of what is sent to webhooks.
const ForWebhooks = "webhook"

// maxRulesBytes bounds that file.
const maxRulesBytes = 1 << 20

// Rules are an operator's word on what leaves, as it is kept in a file. The zero value adds nothing to what the guard
// refuses anyway.
type Rules struct {
	Allowed []string `json:"allowed,omitempty"` // as of perdure.NetworkList; empty: all
	Blocked []string `json:"blocked,omitempty"` // likewise; looked at first
	Private []string `json:"private,omitempty"` // hosts, or host:port, that may be private; for tools, and for nothing else (EG3)
	// Webhooks are hosts, or host:port, that may be private and get webhooks; for those, and for nothing else.
	Webhooks []string `json:"webhooks,omitempty"`
}

// List is the rules as a network list.
func (r Rules) List() perdure.NetworkList {
	return perdure.NetworkList{Allowed: r.Allowed, Blocked: r.Blocked}
}

// Check says what is wrong with rules. It is Invalid.
func (r Rules) Check() error {
	_, err := r.read()
	return errors.Join(r.List().Check(), err)
}

func (r Rules) read() ([]listing, error) {
	var all []listing
	var faults []error
	for _, kind := range []struct {
		purpose string
		hosts   []string
	}{{"", r.Private}, {ForWebhooks, r.Webhooks}} {
		for _, host := range kind.hosts {
			read, err := readListing(Listing{Purpose: kind.purpose, Host: host})
			faults = append(faults, err)
			all = append(all, read)
		}
	}
	return all, errors.Join(faults...)
}

// ReadRules reads the rules of a file; one that is not there has none. Invalid: it cannot be understood.
func ReadRules(path string) (Rules, error) {
	var r Rules
	found, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, fmt.Errorf("read the rules: %w", err)
	case !found.Mode().IsRegular() || found.Size() > maxRulesBytes:
		return r, fmt.Errorf("%w rules: %s is no file of at most %d bytes", perdure.Invalid, path, maxRulesBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read the rules: %w", err)
	}
	if err := perdure.DecodeJSON(text, &r); err != nil {
		return Rules{}, fmt.Errorf("%w rules in %s: %w", perdure.Invalid, path, err)
	}
	if err := r.Check(); err != nil {
		return Rules{}, fmt.Errorf("rules in %s: %w", path, err)
	}
	return r, nil
}

// Write replaces the rules of a file, as a whole and on the disk. Guards that were opened with the file obey them from
// their next request on. Invalid: the rules cannot be obeyed; then the file stays as it is.
func (r Rules) Write(path string) error {
	if err := r.Check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), RulesFile+".*")
	if err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	_, err = fresh.Write(append(text, '\n'))
	err = errors.Join(err, fresh.Sync(), fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the rules: %w", err), os.Remove(fresh.Name()))
	}
	return nil
}

// kept is what a file of rules says.
type kept struct {
	list   perdure.NetworkList
	listed []listing
	broken error // it cannot be read: nothing leaves
}

// standing is the rules of a file that may change. Safe for concurrent use.
type standing struct {
	path string // empty: there are none

	mu   sync.Mutex
	file fs.FileInfo // that was read last; nil: there was none. Guarded by mu
	kept kept        // guarded by mu
}

// now returns the rules as they are now. A file that has another time, size or inode than before is read again.
func (s *standing) now() kept {
	if s.path == "" {
		return kept{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.file, s.kept = nil, kept{}
	case err != nil:
		s.file, s.kept = nil, kept{broken: err}
	case s.file == nil || !os.SameFile(s.file, found) || !s.file.ModTime().Equal(found.ModTime()) || s.file.Size() != found.Size():
		r, err := ReadRules(s.path)
		s.kept = kept{list: r.List(), broken: err}
		if err == nil {
			s.kept.listed, s.kept.broken = r.read()
		}
		if s.file = found; err != nil && !errors.Is(err, perdure.Invalid) {
			s.file = nil // what could not be read now is tried again
		}
	}
	return s.kept
}
