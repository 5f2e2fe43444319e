//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	tutorialPage = "docs/tutorial.md"
	tutorialTime = 3 * time.Minute // for all of it, on a machine that has other work
	tutorialAddr = "127.0.0.1:7373"
	omitted      = "…" // in what a page shows: anything within a line; alone on a line: any lines
)

// lesson is a block of commands of a page, and what the page says that they print. No output shown: they print nothing.
type lesson struct{ commands, shown string }

// TestTutorial does what the tutorial says, in one bash, and wants to see what it shows.
func TestTutorial(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("the tutorial needs curl: install it, or let scripts/test.sh do it")
	}
	page, err := os.ReadFile(filepath.Join("../..", tutorialPage))
	if err != nil {
		t.Fatal(err)
	}
	lessons := readLessons(string(page))
	if len(lessons) < 10 {
		t.Fatalf("%s has %d blocks of commands", tutorialPage, len(lessons))
	}

	printed, talk := takeLessons(t, lessons)

	for i, l := range lessons {
		if i >= len(printed) {
			t.Fatalf("it ended before block %d:\n%s\nstderr:\n%s", i+1, l.commands, talk)
		}
		if !shows(l.shown, printed[i]) {
			t.Errorf("block %d:\n%s\nshown:\n%s\nprinted:\n%s", i+1, l.commands, l.shown, printed[i])
		}
	}
	if t.Failed() {
		t.Logf("stderr:\n%s", talk)
	}
}

// TestHowToSchedule does what the page on schedules says, likewise.
func TestHowToSchedule(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/schedule-an-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	lessons := readLessons(string(page))
	if len(lessons) < 10 {
		t.Fatalf("the page has %d blocks of commands", len(lessons))
	}
	printed, talk := takeLessons(t, lessons)
	for i, l := range lessons {
		if i >= len(printed) {
			t.Fatalf("it ended before block %d:\n%s\nstderr:\n%s", i+1, l.commands, talk)
		}
		if !shows(l.shown, printed[i]) {
			t.Errorf("block %d:\n%s\nshown:\n%s\nprinted:\n%s", i+1, l.commands, l.shown, printed[i])
		}
	}
}

// readLessons finds the blocks of a page: those of sh, each with the one without a language that follows it.
func readLessons(page string) []lesson {
	var all []lesson
	for _, block := range regexp.MustCompile("(?ms)^```(sh|)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		switch language, text := block[1], block[2]; {
		case language == "sh":
			all = append(all, lesson{commands: text})
		case len(all) > 0:
			all[len(all)-1].shown += text
		}
	}
	return all
}

// takeLessons runs the blocks one after another and returns what each printed on stdout, and all of stderr. The program under
// test stands for go run, and an address of its own for the usual one.
func takeLessons(t *testing.T, lessons []lesson) (printed []string, talk string) {
	t.Helper()
	const mark = "\x1e" // record separator
	pid := os.Getpid()
	addr := fmt.Sprintf("127.%d.%d.%d:7373", 1+pid>>16&0x7f, pid>>8&0xff, pid&0xff)
	var script strings.Builder
	for _, l := range lessons {
		script.WriteString(l.commands + "printf '\\x1e'\n")
	}
	text := strings.NewReplacer("go run ./cmd/perdure", "perdure", tutorialAddr, addr).Replace(script.String())

	ctx, cancel := context.WithTimeout(t.Context(), tutorialTime)
	defer cancel()
	temp := t.TempDir()
	t.Cleanup(func() { killCommands(leftIn(temp)) })
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir = "../.."
	cmd.Env = append(plainEnv(), "HOME="+temp, "TMPDIR="+temp, "PERDURE_ADDR="+addr, "GORACE=atexit_sleep_ms=0")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that servers end with it, however it ends
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there may be nobody left
	}
	if err != nil {
		t.Errorf("bash: %v", err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), mark), mark), errs.String()
}

// plainEnv is the environment without what a person may have set for Perdure or curl.
func plainEnv() []string {
	var kept []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		if !strings.HasPrefix(name, "PERDURE_") && !strings.HasSuffix(name, "_PROXY") {
			kept = append(kept, v)
		}
	}
	return kept
}

// leftIn is the data directory that a tutorial left in a folder.
func leftIn(temp string) string {
	found, err := filepath.Glob(filepath.Join(temp, "*", "data"))
	if err != nil || len(found) != 1 {
		return filepath.Join(temp, "gone")
	}
	return found[0]
}

// shows reports whether a text is what a page shows, where the page may leave something out.
func shows(shown, text string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(strings.TrimRight(shown, "\n") + "\n") {
		if line == omitted+"\n" {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), omitted, `[^\n]*?`))
	}
	text = strings.TrimRight(strings.ReplaceAll(text, "\r", ""), "\n") + "\n"
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(text)
}

// TestTutorialIsCompared: what differs from what a page shows is seen, and what it leaves out may be anything.
func TestTutorialIsCompared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown, text string
		want        bool
	}{
		{"a\n", "a\n", true},
		{"", "", true},
		{"", "a\n", false},
		{"a\n", "", false},
		{"a\n", "a\nb\n", false},
		{"id_…!\n", "id_7!\n", true},
		{"id_…!\n", "id_7\n!\n", false},
		{"a\n…\nb\n", "a\nx\r\ny\r\nb\n", true},
		{"a\n…\nb\n", "a\nx\n", false},
		{"a.c\n", "abc\n", false},
	} {
		if got := shows(c.shown, c.text); got != c.want {
			t.Errorf("%q shows %q: %t, want %t", c.shown, c.text, got, c.want)
		}
	}
}
