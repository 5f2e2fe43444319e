package app

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool/mcptool"
)

// deadServers are five entries of mcp.json whose commands write a file and never answer.
func deadServers(t *testing.T) (entries, mark string) {
	t.Helper()
	mark = filepath.Join(t.TempDir(), "started")
	var all []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		text, err := json.Marshal(map[string]any{"command": "sh", "args": []string{"-c", "echo " + name + " >>" + mark + "; exec sleep 60"}, "startup_timeout": "300ms"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%q:%s", name, text))
	}
	return strings.Join(all, ","), mark
}

// perdureOut runs the program.
func perdureOut(t *testing.T, data string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command("perdure", append([]string{"--data", data}, args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// mcpPlace is a data directory with MCP servers and a scripted model.
func mcpPlace(t *testing.T, entries, steps string) (data, model string) {
	t.Helper()
	data, model = shortDir(t), filepath.Join(t.TempDir(), "steps.yaml")
	for path, text := range map[string]string{filepath.Join(data, "mcp.json"): `{"mcpServers":{` + entries + `}}`, model: steps} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { endBrokers(t, data) })
	return data, "scripted:" + model
}

// TestUnusedServersAreNotStarted: a run that uses no MCP server, and a command that runs no tool,
// start none, however many are configured.
func TestUnusedServersAreNotStarted(t *testing.T) {
	t.Parallel()
	entries, mark := deadServers(t)
	data, model := mcpPlace(t, entries, "steps: [{text: hello, repeat: true}]")
	for _, args := range [][]string{
		{"run", "--model", model, "hi"}, {"session", "new", "--model", model}, {"value", "set", "last", "k", "v"}, {"session", "list"}, {"run", "--last", "again"},
	} {
		if out, errs, err := perdureOut(t, data, args...); err != nil {
			t.Errorf("%v: %v: %s %s", args, err, out, errs)
		}
	}
	if started, err := os.ReadFile(mark); err == nil {
		t.Errorf("these were started: %s", started)
	}
}

// TestMissingServerCostsItself: a run that chooses a server that is not there runs without its
// tools, and stderr says which server is missing, and why. The other server is there.
func TestMissingServerCostsItself(t *testing.T) {
	t.Parallel()
	script, charged, stay := dyingServer(t)
	if err := os.WriteFile(stay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	entries := fmt.Sprintf(`"shop":{"command":"sh","args":[%q]},"gone":{"command":"/nothing/here"},"mute":{"command":"sleep","args":["60"],"startup_timeout":0.5}`, script)
	data, model := mcpPlace(t, entries, "steps:\n  - calls: [{name: shop__charge, args: {amount: 5}}]\n  - {text: done, repeat: true}\n")

	out, errs, err := perdureOut(t, data, "run", "--model", model, "--capability", "mcp_shop", "--capability", "mcp_gone", "--capability", "mcp_mute", "go")

	if err != nil || !strings.Contains(out, "done") {
		t.Fatalf("%v: %s %s", err, out, errs)
	}
	wantLines(t, charged, 1)
	for _, name := range []string{"gone", "mute"} {
		if n := strings.Count(errs, "perdure mcp test --name "+name); n != 1 {
			t.Errorf("%s is named %d times: %s", name, n, errs)
		}
	}
	if !strings.Contains(errs, "did not answer within 500ms") {
		t.Errorf("no reason: %s", errs)
	}
}

// TestMCPServerVariables: a variable of an entry that is not set is named, before the server is
// started or asked.
func TestMCPServerVariables(t *testing.T) {
	t.Parallel()
	entries := `"arg":{"command":"sh","args":["-c","exit 3","$1","${NOT_SET_HERE}"]},` +
		`"env":{"command":"sh","args":["-c","exit 3"],"env":{"KEY":"$NOT_SET_HERE"}},` +
		`"far":{"url":"http://127.0.0.1:9/mcp","headers":{"Authorization":"Bearer ${NOT_SET_HERE}"}}`
	data, _ := mcpPlace(t, entries, "steps: []")
	for name, field := range map[string]string{"arg": "args[3]", "env": "env.KEY", "far": "headers.Authorization"} {
		_, errs, err := perdureOut(t, data, "mcp", "test", "--name", name)
		if want := field + " needs the variable NOT_SET_HERE, which is not set"; err == nil || !strings.Contains(errs, want) {
			t.Errorf("%s: %v: got %q, want %q", name, err, errs, want)
		}
	}
}

// TestDoctorNamesMissingServers: doctor asks all servers and names those that do not answer.
func TestDoctorNamesMissingServers(t *testing.T) {
	t.Parallel()
	script, _, _ := dyingServer(t)
	entries := fmt.Sprintf(`"shop":{"command":"sh","args":[%q]},"gone":{"command":"/nothing/here"},"mute":{"command":"sleep","args":["60"],"startup_timeout":"500ms"}`, script)
	data, _ := mcpPlace(t, entries, "steps: []")

	out, errs, _ := perdureOut(t, data, "doctor") // its exit code depends on the machine

	for _, want := range []string{"MCP server shop", "answers; 1 tools", "MCP server gone", "MCP server mute", "did not answer within 500ms"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %s %s", want, out, errs)
		}
	}
}

// TestServeDoesNotWait: a server starts at once, whatever its MCP servers do, also with a rule for
// one of their tools.
func TestServeDoesNotWait(t *testing.T) {
	t.Parallel()
	entries := `"mute":{"command":"sleep","args":["600"],"startup_timeout":"10m"}`
	data, _ := mcpPlace(t, entries, "steps: []")
	cmd := exec.Command("perdure", "--data", data, "serve", "--addr", "127.0.0.1:0", "--deny", "mute__delete")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()

	first := make([]byte, 4)
	_, err = out.Read(first)

	if err != nil || string(first) != "http" {
		t.Errorf("it says %q, %v", first, err)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait() // its exit code does not matter
}

// TestStartupTimeout: a number of seconds and a duration are both a time.
func TestStartupTimeout(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{`90`: 90 * time.Second, `0.5`: 500 * time.Millisecond, `"2m"`: 2 * time.Minute, `0`: mcptool.DefaultStartup} {
		var of mcpServer
		if err := perdure.DecodeJSON([]byte(`{"startup_timeout":`+text+`}`), &of); err != nil || of.startup() != want {
			t.Errorf("%s: got %s, %v", text, of.startup(), err)
		}
	}
	for _, text := range []string{`-1`, `"soon"`, `[]`, `100000`, `"-2s"`} {
		var of mcpServer
		if err := perdure.DecodeJSON([]byte(`{"startup_timeout":`+text+`}`), &of); err == nil {
			t.Errorf("%s was accepted: %s", text, of.startup())
		}
	}
}

// FuzzStartupTimeout: whatever the file says, a timeout that is accepted is one.
func FuzzStartupTimeout(f *testing.F) {
	for _, text := range []string{"1", "-1", "\"90s\"", "1e400", "null", "{}", "\"\""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var of startupTime
		if of.UnmarshalJSON(text) == nil && (of < 0 || time.Duration(of) > 24*time.Hour) {
			t.Errorf("%q is %s", text, time.Duration(of))
		}
	})
}
