package app

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool/shell"
)

// waitTime bounds every wait of a script for another process.
const waitTime = 30 * time.Second

func TestMain(m *testing.M) {
	shell.Supervise() // the program under test is this one, so it also runs the supervisors
	if len(os.Args) > 2 && os.Args[1] == "mcp" && os.Args[2] == "keep" {
		Main(Program{}) // likewise, it keeps MCP servers
		return
	}
	if strings.HasSuffix(filepath.Base(os.Args[0]), ".test") && !keepsSandbox() {
		// a machine without confinement runs no command otherwise, and most tests are about other
		// things
		os.Setenv("PERDURE_SANDBOX", "none")
	}
	testscript.Main(m, map[string]func(){"perdure": func() { Main(Program{}) }, "oldkernel": oldKernel, "mcpfixture": mcpFixture})
}

// keepsSandbox reports whether this machine can confine commands to their workspace (S11).
func keepsSandbox() bool {
	_, err := supervise.New(supervise.Config{Profile: supervise.ProfileWorkspace})
	return err == nil
}

// TestScripts runs the program as people do. Each script is about one command.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			data := filepath.Join(env.WorkDir, "data")
			env.Setenv("PERDURE_DATA", data)
			env.Setenv("PERDURE_SANDBOX", os.Getenv("PERDURE_SANDBOX"))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each of the many processes takes a second to end
			env.Defer(func() { killCommands(data) })
			env.Defer(func() { killServer(data) })
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "sandbox":
				return keepsSandbox(), nil
			case "root":
				return os.Getuid() == 0, nil
			case "mount":
				return mayMount(), nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// killServer ends the server in the background that a failed script has left.
func killServer(data string) {
	if p, err := (servers{}).Find(context.Background(), data); err == nil {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may be gone by now
	}
}

// scriptCommands are the commands of the scripts in addition to those of testscript.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	commands := hostCommands()
	maps.Copy(commands, map[string]func(*testscript.TestScript, bool, []string){
		"exits": exits, "advised": advised, "isjson": isJSON, "isevents": isEvents, "untilheld": untilHeld, "untilstate": untilState,
		"untilalive": untilAlive, "sql": runSQL, "getid": getID, "killsupervisor": killSupervisor, "watch": watch,
		"untillist": untilList, "oldstore": oldStore,
	})
	return commands
}

// exits CODE COMMAND… runs a command and checks its exit code; several are allowed: 0|8.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	got := 0
	var ended *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &ended):
		got = ended.ExitCode()
	case err != nil:
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if !slices.Contains(strings.Split(args[0], "|"), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// isjson [FILE] checks for one JSON value in a file, or on stdout.
func isJSON(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile(fileOrStdout(args))
	if json.Valid([]byte(text)) == neg {
		ts.Fatalf("JSON: %t, want %t", !neg, neg)
	}
}

// isevents [FILE] checks that each line of a file, or of stdout, is an event, without gaps.
func isEvents(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.TrimSuffix(ts.ReadFile(fileOrStdout(args)), "\n")
	var last int64
	for line := range strings.SplitSeq(text, "\n") {
		e, err := perdure.DecodeEvent([]byte(line))
		ts.Check(err)
		if last != 0 && e.Seq != last+1 {
			ts.Fatalf("event %d comes after %d", e.Seq, last)
		}
		again, err := perdure.EncodeEvent(e)
		ts.Check(err)
		if !bytes.Equal(again, []byte(line)) {
			ts.Fatalf("event %d is not in its stored form", e.Seq)
		}
		last = e.Seq
	}
}

func fileOrStdout(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return "stdout"
}

// poll polls until look returns true.
func poll(ts *testscript.TestScript, what string, look func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%s: not within %s", what, waitTime)
		}
	}
}

// untilheld waits until a process holds the data directory.
func untilHeld(ts *testscript.TestScript, _ bool, _ []string) {
	poll(ts, "held", func() bool {
		held, err := lockHeld(filepath.Join(ts.Getenv("PERDURE_DATA"), "lock"))
		return err == nil && held
	})
}

// untilstate NOUN WORD waits until the list of the noun shows a word.
func untilState(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, strings.Join(args, " "), func() bool {
		cmd := exec.Command("perdure", args[0], "list")
		cmd.Env = append(os.Environ(), "PERDURE_DATA="+ts.Getenv("PERDURE_DATA"))
		out, err := cmd.Output()
		return err == nil && strings.Contains(string(out), args[1])
	})
}

// untillist COUNT COMMAND… waits until a list has this many entries.
func untilList(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, strings.Join(args, " "), func() bool {
		cmd := exec.Command("perdure", append(args[1:len(args):len(args)], "-o", "name")...)
		cmd.Env = append(os.Environ(), "PERDURE_DATA="+ts.Getenv("PERDURE_DATA"))
		out, err := cmd.Output()
		return err == nil && strconv.Itoa(strings.Count(string(out), "\n")) == args[0]
	})
}

// untilalive waits until a supervised command is up.
func untilAlive(ts *testscript.TestScript, _ bool, _ []string) {
	poll(ts, "alive", func() bool {
		all, err := processesIn(context.Background(), ts.Getenv("PERDURE_DATA"))
		return err == nil && len(all) == 1 && all[0].State == "alive" && all[0].PID != 0
	})
}

// sql FILE runs the SQL of a file on the database of the data directory.
func runSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", filepath.Join(ts.Getenv("PERDURE_DATA"), "perdure.db"))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(ts.ReadFile(args[0]))
	ts.Check(err)
}

// getid VARIABLE COMMAND… runs a command and stores the single line of its output.
func getID(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec(args[1], args[2:]...))
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// watch CODE WORD=STEP… -- COMMAND… runs a command and takes each step when its word has been
// printed, on stdout or stderr, after the previous word. A step is a signal for the command (INT,
// TERM, KILL) or the arguments of perdure, which runs until its end. It checks the exit code and
// stores the output in the file watched.
func watch(ts *testscript.TestScript, _ bool, args []string) {
	dash := slices.Index(args, "--")
	if dash < 2 {
		ts.Fatalf("usage: watch CODE WORD=STEP… -- COMMAND…")
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[dash+1], args[dash+2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "PERDURE_DATA="+ts.Getenv("PERDURE_DATA"), "GORACE="+ts.Getenv("GORACE"))
	r, w, err := os.Pipe()
	ts.Check(err)
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	ts.Check(cmd.Start())
	ts.Check(w.Close())

	signals := map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	var seen, all strings.Builder
	steps := args[1:dash]
	for buf := make([]byte, 4096); ; {
		n, err := r.Read(buf)
		seen.Write(buf[:n])
		all.Write(buf[:n])
		for len(steps) > 0 {
			word, step, _ := strings.Cut(steps[0], "=")
			_, after, found := strings.Cut(seen.String(), word)
			if !found {
				break
			}
			seen.Reset()
			seen.WriteString(after)
			if signal, ok := signals[step]; ok {
				ts.Check(cmd.Process.Signal(signal))
			} else {
				ts.Check(ts.Exec("perdure", strings.Fields(step)...))
			}
			steps = steps[1:]
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs("watched"), []byte(all.String()), 0o600))
	if len(steps) > 0 || strconv.Itoa(cmd.ProcessState.ExitCode()) != args[0] {
		ts.Fatalf("%v, exit code %d, want %s; not seen: %q in\n%s", err, cmd.ProcessState.ExitCode(), args[0], steps, all.String())
	}
}

// killsupervisor kills the only running command, after its supervisor, so that its result is
// unknown.
func killSupervisor(ts *testscript.TestScript, _ bool, _ []string) {
	if n := killCommands(ts.Getenv("PERDURE_DATA")); n != 1 {
		ts.Fatalf("%d commands ran, want one", n)
	}
	poll(ts, "gone", func() bool {
		all, err := processesIn(context.Background(), ts.Getenv("PERDURE_DATA"))
		return err == nil && all[0].State == "gone"
	})
}

// killCommands kills all commands that a script left running, and returns their number.
func killCommands(data string) (killed int) {
	all, err := processesIn(context.Background(), data)
	if err != nil {
		return 0
	}
	for _, p := range all {
		if p.State != "alive" {
			continue
		}
		killed++
		for _, pid := range []int{p.Supervisor, p.PID} {
			if found, err := os.FindProcess(pid); err == nil {
				_ = found.Kill() // it may have ended by itself
			}
		}
	}
	return killed
}

// processesIn lists the supervised commands of a data directory with its own database.
func processesIn(ctx context.Context, data string) ([]cli.Process, error) {
	return supervised{}.Processes(ctx, cli.OpenOptions{Access: cli.Reading, Dir: data})
}
