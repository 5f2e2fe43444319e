package cli

import (
	"strings"
	"testing"
)

// TestC09Places checks that printed commands find the same store as the command itself: by its
// flags, and without a password. Variables of the environment also apply to the printed command. It
// is not parallel: it sets variables.
func TestC09Places(t *testing.T) {
	const server, database = "http://127.0.0.1:7373", "postgres://u:correct-horse@host/name"
	env := map[string]string{"PERDURE_DATA": "/elsewhere"}
	for _, test := range []struct {
		name  string
		flags string
		env   map[string]string
		want  string // between the command and the id
	}{
		{"nothing", "", nil, ""},
		{"a directory", "--data /a", nil, "--data /a "},
		{"a directory of the environment, for another terminal", "", env, "--data /elsewhere "},
		{"a server", "--server " + server, nil, "--server " + server + " "},
		{"a server before a directory", "--server " + server, env, "--server " + server + " "},
		{"a server of the environment", "", map[string]string{"PERDURE_SERVER": server, "PERDURE_DATA": "/elsewhere"}, ""},
		{"a server with a password", "--server http://u:correct-horse@host", nil, `--server "$PERDURE_SERVER" `},
		{"a database", "--database " + database, nil, `--database "$PERDURE_DATABASE" `},
		{"a database and a directory", "--data /a --database " + database, nil, `--data /a --database "$PERDURE_DATABASE" `},
		{"a database of the environment", "", map[string]string{"PERDURE_DATABASE": database}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value) // kong reads it
			}
			code, out, talk := command{args: test.flags + " ps -o json", engine: busyOffice("word ")}.run(t.Context())
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, talk)
			}
			for _, verb := range []string{"approve", "attach", "task input", "task resolve", "log", "task show", "event tail", "schedule show"} {
				want := strings.ReplaceAll("perdure "+verb+" "+test.want, `"`, `\"`)
				if !strings.Contains(out, want) || test.want == "" && strings.Contains(out, want+"--") {
					t.Errorf("no line begins with %q: %s", want, out)
				}
			}
			if strings.Contains(out, "correct-horse") {
				t.Errorf("a password is printed: %s", out)
			}
		})
	}
}

// TestEmptyPlaces: an empty variable means no database, and no server.
func TestEmptyPlaces(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"ps --database=", "ps --server=", "--server= version"} {
		if code, _, talk := (command{args: args, engine: office{scene: &scene{}}}).run(t.Context()); code != exitUsage || !strings.Contains(talk, "is empty") {
			t.Errorf("%s: exit code %d, %q", args, code, talk)
		}
	}
}
