package agent_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/store"
)

// The demo model needs neither a key nor a network. The folder of the example is
// the project that the agent may look at.
func Example() {
	ctx := context.Background()
	project, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(project)
	setup := &agent.Setup{
		Getenv: func(string) string { return "" }, Home: os.UserHomeDir,
		IsProject: func(dir string) bool { return dir == project },
	}
	s := store.New(memory.New(), nil)
	defer s.Close()

	a, err := setup.Assemble(ctx, agent.Options{
		Store: s, Holder: tidemark.Holder{Program: "example", PID: os.Getpid()},
		Choice: agent.Choice{Provider: "demo"}, Project: project,
		Approve: func(_ context.Context, r chat.ApprovalRequest) (chat.Decision, error) {
			fmt.Println("asked for", r.Tool)
			return chat.Deny, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := a.Begin(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	turn, err := c.Send(ctx, tidemark.Text(`call write {"path":"hello.txt","content":"hello"}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(turn.Stop, c.Exists())
	// Output:
	// asked for write
	// end_turn true
}
