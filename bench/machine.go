package main

import (
	"context"
	"fmt"
	"runtime"
)

// Machine is where a run was made. Two runs can be compared when all of it agrees.
type Machine struct {
	Cores       int    `json:"cores"`
	Go          string `json:"go"`
	System      string `json:"system"`
	FileSystem  string `json:"file_system"`
	SQLite      string `json:"sqlite"`
	JournalMode string `json:"journal_mode"`
	Synchronous string `json:"synchronous"`
	Quick       bool   `json:"quick"`
}

// String is the first line of the table.
func (m Machine) String() string {
	s := fmt.Sprintf("%d cores, %s, %s, %s, SQLite %s, journal %s, synchronous %s",
		m.Cores, m.System, m.FileSystem, m.Go, m.SQLite, m.JournalMode, m.Synchronous)
	if m.Quick {
		s += ", quick: the numbers mean nothing"
	}
	return s
}

// machine asks the system and a database that was opened as the floor's is.
func (l *lab) machine(ctx context.Context) (Machine, error) {
	m := Machine{
		Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		FileSystem: fileSystem(l.root), Quick: l.quick,
	}
	f, err := l.floor(ctx)
	if err != nil {
		return m, err
	}
	defer f.close()
	var level int
	for query, into := range map[string]any{askVersion: &m.SQLite, askJournalMode: &m.JournalMode, askSynchronous: &level} {
		if err := f.conn.QueryRowContext(ctx, query).Scan(into); err != nil {
			return m, fmt.Errorf("ask the database: %w", err)
		}
	}
	m.Synchronous = fmt.Sprint(level)
	if level == 2 {
		m.Synchronous = "FULL"
	}
	return m, nil
}
