//go:build soak

package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/soak"
)

// remoteRuntime is another perdure with an agent, served over HTTP.
type remoteRuntime struct {
	t          *testing.T
	url, token string
}

func startRemote(t *testing.T, script string) remoteRuntime {
	t.Helper()
	data := shortDir(t)
	file := filepath.Join(data, "build.yaml")
	home := fmt.Sprintf(`{"agents":{"build":{"description":"Builds things.","model":"scripted:%s"}}}`, file)
	for name, text := range map[string]string{file: script, filepath.Join(data, "mcp.json"): home} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serve := exec.Command("perdure", "serve", "--data", data, "--addr", "127.0.0.1:0", "--mcp-tool", "ask_build")
	serve.Stderr = os.Stderr
	out, err := serve.StdoutPipe()
	if err == nil {
		err = serve.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt) // it may have ended
		_ = serve.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return remoteRuntime{t, strings.TrimSpace(url), strings.TrimSpace(string(token))}
}

// tasks returns the remote's tasks of its own tools.
func (r remoteRuntime) tasks() []perdure.Task {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url+"/v1/tasks", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var all struct{ Items []perdure.Task }
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return all.Items
}

// until waits until the remote has n tasks in a state.
func (r remoteRuntime) until(n int, state perdure.TaskState) {
	r.t.Helper()
	for limit := time.Now().Add(time.Minute); ; {
		found := 0
		for _, task := range r.tasks() {
			if task.State == state {
				found++
			}
		}
		if found == n {
			return
		}
		if time.Now().After(limit) {
			r.t.Fatalf("%d tasks are %s, want %d: %+v", found, state, n, r.tasks())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// asker returns the arguments of a perdure that has this agent as an external one.
func (r remoteRuntime) asker(class perdure.EffectClass) []string {
	r.t.Helper()
	data := shortDir(r.t)
	home := fmt.Sprintf(`{"mcpServers":{"far":{"url":"%s/mcp","headers":{"Authorization":"Bearer %s"},"agents":["ask_*"],"classes":{"ask_build":%q}}}}`, r.url, r.token, class)
	if err := os.WriteFile(filepath.Join(data, "mcp.json"), []byte(home), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return []string{"mcp", "serve", "--data", data, "--tool", "far__ask_build"}
}

// agents returns the external agents in the store of the asker, which does not run now.
func (r remoteRuntime) agents(args []string) (tasks []perdure.Task) {
	r.t.Helper()
	out := shellOut(r.t, "perdure", "--data", args[3], "task", "list", "-o", "jsonl")
	for line := range strings.Lines(out) {
		var task perdure.Task
		if err := json.Unmarshal([]byte(line), &task); err != nil {
			r.t.Fatalf("%v in %s", err, line)
		}
		if task.Kind == perdure.KindExternalAgent {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// TestMCPExternalAgentKills: the agent of another runtime works while the asker is killed between
// its polls, and nothing polls at its end: one remote task, one answer.
func TestMCPExternalAgentKills(t *testing.T) {
	t.Parallel()
	kills := soak.Count(t, "PERDURE_MCP_AGENT_KILLS", 3, 30)
	r := startRemote(t, fmt.Sprintf("steps:\n  - {text: \"built {{user}}\", delay: %dms, repeat: true}\n", 2500+800*kills))
	args := r.asker(perdure.AtMostOnce)
	c := startMCP(t, args...)
	id := c.begin("far__ask_build", `{"message":"a house"}`)
	r.until(1, perdure.TaskRunning)
	works := func() bool {
		return strings.Contains(fmt.Sprint(c.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id))), "orking")
	}
	<-time.After(700 * time.Millisecond) // its id is committed
	for range kills {
		if !works() {
			t.Error("it does not work any more")
		}
		c.kill()
		<-time.After(rand.N(100 * time.Millisecond))
		c = startMCP(t, args...)
	}
	c.kill()
	r.until(1, perdure.TaskSucceeded)
	c = startMCP(t, args...)
	done, _ := json.Marshal(c.end(id)["result"])
	if !strings.Contains(string(done), "built a house") {
		t.Errorf("got %s", done)
	}
	c.leave()
	ours, theirs := r.agents(args), r.tasks()
	if len(ours) != 1 || len(theirs) != 1 || ours[0].State != perdure.TaskSucceeded || ours[0].Links.RemoteTask == "" {
		t.Errorf("%d tasks of ours, %d of theirs: %+v", len(ours), len(theirs), ours)
	}
	t.Logf("%d kills of who asks: one remote task, one answer", kills+1)
}

// TestMCPExternalAgentCancel: a cancel by the asker, after its restart, ends the agent's work.
func TestMCPExternalAgentCancel(t *testing.T) {
	t.Parallel()
	r := startRemote(t, "steps:\n  - {text: late, delay: 10m, repeat: true}\n")
	args := r.asker(perdure.Idempotent)
	c := startMCP(t, args...)
	id := c.begin("far__ask_build", `{"message":"a house"}`)
	c.kill() // at any point: the same key is the same remote task
	c = startMCP(t, args...)
	r.until(1, perdure.TaskRunning)
	c.ask("tasks/cancel", fmt.Sprintf(`"taskId":%q`, id))
	r.until(1, perdure.TaskCanceled)
	if done := c.end(id); done["status"] != "cancelled" {
		t.Errorf("got %v", done)
	}
	c.leave()
	if ours, theirs := r.agents(args), r.tasks(); len(ours) != 1 || len(theirs) != 1 {
		t.Errorf("%d tasks of ours, %d of theirs", len(ours), len(theirs))
	}
}
