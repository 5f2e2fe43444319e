package program

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/perdure/perdure/internal/app"
	"github.com/perdure/perdure/internal/pgtest"
)

// apiKey is the key that a frontend with a key wants.
const apiKey = "key-0123456789abcdef"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"perdure-temporal": func() { app.Main(New()) },
		"perdure":          func() { app.Main(app.Program{}) },
	})
}

// TestScripts runs the program as people do. A build for tests with a server has a real one.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("PERDURE_DATA", filepath.Join(env.WorkDir, "data"))
			env.Setenv("KEY", apiKey)
			for _, name := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_PROFILE"} {
				env.Setenv(name, "")
			}
			env.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(env.WorkDir, "none.toml"))
			return os.MkdirAll(filepath.Join(env.WorkDir, "home"), 0o700)
		},
		Condition: func(cond string) (bool, error) {
			if cond == "simulated" {
				return simulated, nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"frontend": frontend, "exits": exits,
			"database": func(ts *testscript.TestScript, _ bool, _ []string) { // sets PERDURE_DATABASE to an empty one
				ts.Setenv("PERDURE_DATABASE", pgtest.Database(t, nil))
			},
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// exits CODE COMMAND… runs a command and checks its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	got := 0
	var ended *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &ended):
		got = ended.ExitCode()
	case err != nil:
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// frontend [WORD…] starts a Temporal server and sets the variable ADDRESS. With tls, clients need a
// certificate: the files ca.pem, client.pem and client.key are for them, and other.pem and
// other.key are of another authority. With key, they need the API key. With deny, they may not
// register namespaces. key and deny need a simulated server.
func frontend(ts *testscript.TestScript, _ bool, words []string) {
	address := startServer(ts, slices.Contains(words, "key"), slices.Contains(words, "deny"))
	if slices.Contains(words, "tls") {
		address = startProxy(ts, address)
	}
	ts.Setenv("ADDRESS", address)
}
