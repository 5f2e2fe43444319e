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

// RulesFile is the name of the file in a data directory that holds its Rules.
const RulesFile = "egress.json"

// ForWebhooks is the purpose of requests to webhooks.
const ForWebhooks = "webhook"

// maxRulesBytes bounds the size of that file.
const maxRulesBytes = 1 << 20

// Rules are the operator's egress rules as they are stored in a file. The zero value adds nothing
// to what the guard refuses anyway.
type Rules struct {
	Allowed []string `json:"allowed,omitempty"` // as in perdure.NetworkList; empty: all
	Blocked []string `json:"blocked,omitempty"` // likewise; checked first
	// Hosts, or host:port, that may be private, for tools only (EG3).
	Private []string `json:"private,omitempty"`
	// Webhooks are hosts, or host:port, that may be private, for webhooks only.
	Webhooks []string `json:"webhooks,omitempty"`
}

// List returns the rules as a network list.
func (r Rules) List() perdure.NetworkList {
	return perdure.NetworkList{Allowed: r.Allowed, Blocked: r.Blocked}
}

// Check says what is wrong with the rules. The error is Invalid.
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

// ReadRules reads the rules of a file; without the file there are none. Invalid: the file cannot be
// parsed.
func ReadRules(path string) (Rules, error) {
	var r Rules
	found, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, fmt.Errorf("read egress rules: %w", err)
	case !found.Mode().IsRegular() || found.Size() > maxRulesBytes:
		return r, fmt.Errorf("%w rules: %s is not a regular file of at most %d bytes", perdure.Invalid, path, maxRulesBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read egress rules: %w", err)
	}
	if err := perdure.DecodeJSON(text, &r); err != nil {
		return Rules{}, fmt.Errorf("%w rules in %s: %w", perdure.Invalid, path, err)
	}
	if err := r.Check(); err != nil {
		return Rules{}, fmt.Errorf("rules in %s: %w", path, err)
	}
	return r, nil
}

// Write replaces the file with the rules, atomically and durably. Guards that use the file apply
// them from their next request on. Invalid: the rules are wrong; the file is unchanged.
func (r Rules) Write(path string) error {
	if err := r.Check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write egress rules: %w", err)
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), RulesFile+".*")
	if err != nil {
		return fmt.Errorf("write egress rules: %w", err)
	}
	_, err = fresh.Write(append(text, '\n'))
	err = errors.Join(err, fresh.Sync(), fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write egress rules: %w", err), os.Remove(fresh.Name()))
	}
	return nil
}

// parsedRules is the parsed content of a rules file.
type parsedRules struct {
	list   perdure.NetworkList
	listed []listing
	broken error // the file cannot be read: every request is denied
}

// rulesFile is a rules file that may change. It is safe for concurrent use.
type rulesFile struct {
	path string // empty: no file

	mu   sync.Mutex
	file fs.FileInfo // the file that was read last; nil: there was none. Guarded by mu
	kept parsedRules // guarded by mu
}

// current returns the current rules. It reads the file again if its time, size or inode has
// changed.
func (s *rulesFile) current() parsedRules {
	if s.path == "" {
		return parsedRules{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.file, s.kept = nil, parsedRules{}
	case err != nil:
		s.file, s.kept = nil, parsedRules{broken: err}
	case s.file == nil || !os.SameFile(s.file, found) || !s.file.ModTime().Equal(found.ModTime()) || s.file.Size() != found.Size():
		r, err := ReadRules(s.path)
		s.kept = parsedRules{list: r.List(), broken: err}
		if err == nil {
			s.kept.listed, s.kept.broken = r.read()
		}
		if s.file = found; err != nil && !errors.Is(err, perdure.Invalid) {
			s.file = nil // try again with the next request
		}
	}
	return s.kept
}
