//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// row is one attack.
type row struct {
	ID    string   `json:"id"`
	What  string   `json:"what"`  // what is attacked, and how
	Trial string   `json:"trial"` // what is counted
	N     int      `json:"n"`     // number of trials; 0: the command counts them
	Env   []string `json:"env,omitempty"`
	Args  []string `json:"args"` // the command
}

// rows returns the attacks, in the order in which they run.
func rows(o options, binary string) []row {
	count := func(id string, quick, full int) int {
		if n, ok := o.count[id]; ok {
			return n
		}
		if o.scale == "quick" {
			return quick
		}
		return full
	}
	seed := strconv.FormatInt(o.seed, 10)
	kills, sessions := count("R1", 30, 1000), count("sessions", 10, 50)
	onPostgres := func(kills int, more ...string) []string {
		args := []string{binary, "chaos", "--store", "postgres", "--kills", strconv.Itoa(kills), "--seed", seed, "-o", "json"}
		return append(args, more...)
	}
	all := []row{
		{
			"R1", "the real binary is killed, stopped and asked to end at random moments, under mixed work; judged from outside", "kills", kills, nil,
			[]string{binary, "chaos", "--kills", strconv.Itoa(kills), "--sessions", strconv.Itoa(sessions), "--seed", seed, "-o", "json"},
		},
		{
			"R1-postgres", "the same over Postgres; a server that was stopped beyond its lease begins anew as another worker", "kills", count("R1-postgres", 10, 200), nil,
			onPostgres(count("R1-postgres", 10, 200)),
		},
		{
			"R9", "Postgres is killed and starts again, at random moments, under mixed work", "outages", count("R9", 10, 100), nil,
			onPostgres(count("R9", 10, 100), "--faults", "away", "--sessions", "8"),
		},
		{
			"R12-postgres", "one of two servers over the same Postgres is stopped for up to 2.5 lease times, the other one takes over, the first goes on", "pauses", count("R12-postgres", 10, 100), nil,
			onPostgres(count("R12-postgres", 10, 100), "--faults", "stop", "--workers", "2", "--sessions", "8"),
		},
		{
			"R2", "the runtime dies, panics or gets an error at every call of every store method that a turn uses", "points", 0,
			env("KILLPOINT_STRIDE", count("R2", 151, 1)), test("./engine/local", "TestR02.*"),
		},
		{
			"R5", "power cuts: the file operations of a run, with writes lost and torn", "crash states", count("R5", 300, 10000),
			env("PERDURE_POWER_CUTS", count("R5", 300, 10000)), test("./internal/app", "TestR05.*"),
		},
		{
			"R6", "fsync and write fail at the nth call of the real binary", "failures put in", 0, env("PERDURE_DISK_FAULTS", count("R6", 12, 50)), test("./internal/app", "TestR06.*"),
		},
		{
			"R7", "the disk is full at random moments", "cycles", count("R7", 10, 200), env("PERDURE_FULL_DISKS", count("R7", 10, 200)), test("./internal/app", "TestR07.*"),
		},
		{
			"R27", "backups beside a server under load, each restored and verified", "backups", count("R27", 3, 20), env("PERDURE_BACKUPS", count("R27", 3, 20)), test("./internal/app", "TestR27.*"),
		},
		{
			"R12", "a worker is stopped beyond its lease, another takes over, the first goes on", "rounds", count("R12", 300, 10000), env("LEASES", count("R12", 300, 10000)), test("./engine/local", "TestR12.*Soak"),
		},
		{
			"R17", "histories of the ledger, of handles, tasks and files are linearisable", "histories a model", count("R17", 60, 1000),
			env("LINEAR_HISTORIES", count("R17", 60, 1000), "LINEAR_OPERATIONS", count("operations", 300, 5000)), test("./internal/linearizability", "TestR17.*Soak"),
		},
		{
			"R18", "simulated programs of sessions, lanes, approvals, subagents, cancels and crashes, in virtual time", "programs", count("R18", 1000, 10000),
			env("SEEDS", count("R18", 1000, 10000)), test("./internal/sim", "TestR18.*(Soak|EveryCommit|Noticed)"),
		},
		{
			"lanes", "random interleavings of start, detach, approve, deny, cancel, interrupt, complete, fail, panic, drain, restart", "steps", count("lanes", 20000, 1000000),
			env("LANES_STEPS", count("lanes", 20000, 1000000), "LANES_SEED", seed), test("./engine/local", "TestLaneStormSoak"),
		},
		{
			"R32", "bugs put back into a copy, one at a time: a test must find each", "bugs", 0, nil, []string{"bash", "scripts/museum.sh"},
		},
	}
	return append(all, mcpRows(count)...)
}

// mcpRows returns the rows about MCP.
func mcpRows(count func(id string, quick, full int) int) []row {
	return []row{
		{
			"mcp-proxy", "a proxy is killed in the middle of its calls: of a server of quick calls, and of one that sleeps all the while", "kills of each", count("mcp-proxy", 10, 100),
			env("PERDURE_MCP_KILLS", count("mcp-proxy", 10, 100), "PERDURE_MCP_SLEEP", count("sleep", 5, 600)), test("./internal/app", "TestMCPProxyKills"),
		},
		{
			"mcp-polls", "a server is killed while clients of MCP call it and poll their tasks", "kills", count("mcp-polls", 20, 1000),
			env("PERDURE_MCP_POLL_KILLS", count("mcp-polls", 20, 1000)), test("./internal/app", "TestMCPProxyPolls"),
		},
		{
			"R15-mcp", "one call of MCP, issued again and again, at once, broken off, and over restarts", "calls", count("R15-mcp", 300, 10000),
			env("PERDURE_MCP_REISSUES", count("R15-mcp", 300, 10000)), test("./internal/mcpserver", "TestR15ReissuesSoak"),
		},
	}
}

// test returns the command that runs tests of a package.
func test(pkg, name string) []string {
	return []string{"go", "test", "-tags", "soak", "-count=1", "-timeout=6h", "-v", "-run", "^(" + name + ")$", pkg}
}

// env returns environment variables from alternating names and values.
func env(pairs ...any) (list []string) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf("%v=%v", pairs[i], pairs[i+1]))
	}
	return list
}

// result is the result of a row.
type result struct {
	Row     row           `json:"row"`
	Failed  string        `json:"failed,omitempty"` // why; empty: it passed
	Took    time.Duration `json:"took_ns"`
	Figures []string      `json:"figures,omitempty"` // figures that it printed
	Tail    string        `json:"tail,omitempty"`    // the end of its output, when it failed
	Where   string        `json:"where"`             // machine and commit
	Date    string        `json:"date"`
	Seed    int64         `json:"seed"`
}

// figure matches lines that a test logs, JSON, and lines of a script.
var figure = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.+)$|^(\{.*\})$|^museum: (.+)$`)

// maxFigures is the maximum number of lines of a row on the page.
const maxFigures = 12

// execute runs the row's command in a separate process group, which ends with ctx.
func (r row) execute(ctx context.Context) result {
	begun := time.Now()
	cmd := exec.CommandContext(ctx, r.Args[0], r.Args[1:]...)
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	found := result{Row: r, Took: time.Since(begun)}
	text := string(out)
	for _, match := range figure.FindAllStringSubmatch(text, -1) {
		found.Figures = append(found.Figures, strings.TrimSpace(strings.Join(match[1:], "")))
	}
	found.Figures = found.Figures[max(len(found.Figures)-maxFigures, 0):]
	switch {
	case err != nil:
		found.Failed = err.Error()
	case strings.Contains(text, "no tests to run"):
		found.Failed = "no such test"
	}
	if found.Failed != "" {
		found.Tail = text[max(len(text)-2000, 0):]
	}
	return found
}

func (r result) verdict() string {
	if r.Failed != "" {
		return "FAILED"
	}
	return "held"
}

// build builds the attacked binary.
func build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/perdure")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
}

// machine describes the machine.
func machine(ctx context.Context) string {
	commit := "unknown"
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%d cores, %s/%s, %s, commit %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), commit)
}
