// Command supervisor is only a supervisor, for Config.Supervisor.
package main

import (
	"os"

	"github.com/perdure/perdure/internal/supervise"
)

func main() {
	supervise.Entry()
	os.Exit(2) // it was started by hand
}
