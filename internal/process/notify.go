package process

import (
	"net"
	"os"
	"strconv"
	"time"
)

// Notifier tells systemd how things are. Without systemd it says nothing.
type Notifier struct {
	socket   string
	watchdog time.Duration // that systemd waits for a sign; 0: it does not
	last     time.Time     // when a sign was given
}

// NewNotifier reads what systemd left in the environment.
func NewNotifier(getenv func(string) string) *Notifier {
	n := &Notifier{socket: getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if pid := getenv("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n
}

// Ready says that the process does what it is for.
func (n *Notifier) Ready() { n.tell("READY=1") }

// Stopping says that the process is about to end.
func (n *Notifier) Stopping() { n.tell("STOPPING=1") }

// Alive is to be called in each round of what the process does: when that hangs,
// systemd misses the sign and starts the process anew.
func (n *Notifier) Alive(now time.Time) {
	if n.watchdog > 0 && (now.Sub(n.last) >= n.watchdog/4 || now.Before(n.last)) {
		n.last = now
		n.tell("WATCHDOG=1")
	}
}

// tell sends a line. What cannot be told is not worth ending a process for.
func (n *Notifier) tell(state string) {
	if n.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	c.Write([]byte(state))
}
