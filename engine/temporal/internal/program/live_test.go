//go:build live

package program

import (
	"bufio"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

const simulated = false

// startServer starts a real server that ends with the script.
func startServer(ts *testscript.TestScript, key, deny bool) string {
	binary := os.Getenv("PERDURE_TEMPORAL_SERVER")
	if binary == "" || key || deny {
		ts.Fatalf("want PERDURE_TEMPORAL_SERVER, which make temporal sets, and neither key nor deny")
	}
	cmd := exec.Command(binary, "-address", "127.0.0.1:0", "-data", ts.MkAbs("temporal.db"), "-log", "fatal")
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	cmd.Stderr = os.Stderr
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // likewise
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) < 2 || fields[0] != "ready" {
		ts.Fatalf("the server says %q, error %v", line, err)
	}
	return fields[1]
}
