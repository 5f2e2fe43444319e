package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/shell"
)

// sayWhen is a command whose first act is to write the time, in microseconds since 1970. It needs bash 5.
const sayWhen = `echo "${EPOCHREALTIME/[^0-9]/}" > `

// measureSupervised measures a command in the background, under its supervisor: from the wish for the run to the first
// thing that the command does.
func measureSupervised(ctx context.Context, l *lab) error {
	dir, err := l.folder("commands")
	if err != nil {
		return err
	}
	bash, err := shell.New(shell.Config{RunsDir: filepath.Join(dir, "runs"), Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}})
	if err != nil {
		l.report.missing("spawn_supervised", err)
		return nil
	}
	runs := l.count(60, 2)
	clock := newTaskClock(runs)
	listening := &tools{target: "bash", asked: func(m moment) { clock.asked <- m }}
	next := 0
	listening.args = func(int) []byte {
		next++ // one turn after another, so nobody is beside it
		return []byte(`{"command":` + quoted(sayWhen+"started_"+strconv.Itoa(next)) + `}`)
	}
	w, err := l.world(ctx, worldConfig{Tools: listening, More: []tool.Tool{bash}})
	if err != nil {
		return err
	}
	defer w.close()
	id, err := w.session(ctx, agent(true))
	if err != nil {
		return err
	}
	var s sample
	for run := range runs {
		if err := w.rested(ctx, id, order{tool: "spawn", all: 1, step: 1}); err != nil {
			return err
		}
		started, err := whenStarted(filepath.Join(dir, "started_"+strconv.Itoa(run+1)))
		if err != nil {
			return err
		}
		s = append(s, started.Sub((<-clock.asked).at.Round(0))) // the clock of the wall, which is all that a command has
	}
	l.report.latencies("spawn_supervised", s)
	return nil
}

// whenStarted reads what sayWhen wrote.
func whenStarted(path string) (time.Time, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("the command did not start: %w", err)
	}
	us, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the command wrote no time, is bash older than 5? %w", err)
	}
	return time.UnixMicro(us), nil
}

// quoted is a string as JSON.
func quoted(text string) string {
	body, _ := json.Marshal(text) // a string always can
	return string(body)
}
