package mcptool_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// alive reports whether a process does anything.
func alive(pid string) bool {
	state, _ := exec.Command("ps", "-o", "stat=", "-p", pid).Output() // none: there is no such process
	return len(state) > 0 && !strings.HasPrefix(string(state), "Z")
}

// TestEndOfAServer: a server ends with its broker, whoever started the broker, and whatever the
// server listens to.
func TestEndOfAServer(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]string{
		"until its input ends":        `while read -r line; do :; done`,
		"until it is interrupted":     `trap "exit 0" INT; while :; do sleep 0.1; done`,
		"for ever":                    `trap "" INT; while :; do sleep 0.1; done`,
		"with its output left behind": `setsid sleep 20 2>/dev/null & while read -r line; do :; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := keepShell(t, `sh -c 'echo "{\"jsonrpc\":\"2.0\",\"method\":\"pid=$$;\"}"; `+server+`'; echo`)
			conn := k.dial(t)
			said := conn.hear("pid=")
			pid := regexp.MustCompile(`pid=(\d+);`).FindStringSubmatch(said[len(said)-1])[1]
			t.Cleanup(func() { _ = exec.Command("kill", "-9", pid).Run() }) // it is gone, or the test is red

			conn.say(`{"jsonrpc":"2.0","method":"broker/end"}`)

			select {
			case err := <-k.ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("its broker waits for it")
			}
			for end := time.Now().Add(patience); alive(pid); <-time.After(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the server is left behind")
				}
			}
		})
	}
}
