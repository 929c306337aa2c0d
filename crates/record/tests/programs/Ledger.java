/* Threads that wait for one monitor, and one that waits in it to be told. */
public final class Ledger {
    private long sum;
    private boolean isOver;

    private long work(long from) {
        long result = from;
        for (int step = 0; step < 2000; step++) {
            result = result * 6364136223846793005L + 1442695040888963407L;
        }
        return result;
    }

    synchronized void book(long amount) {
        sum += work(amount);
    }

    synchronized void end() {
        isOver = true;
        notifyAll();
    }

    synchronized void await() throws InterruptedException {
        while (!isOver) {
            wait(5);
        }
    }

    public static void main(String[] words) throws Exception {
        Ledger ledger = new Ledger();
        Thread waiter = new Thread(() -> {
            try {
                ledger.await();
            } catch (InterruptedException exception) {
                throw new IllegalStateException(exception);
            }
        });
        waiter.start();
        Thread[] threads = new Thread[4];
        for (int index = 0; index < threads.length; index++) {
            threads[index] = new Thread(() -> {
                for (int turn = 0; turn < 100000; turn++) {
                    ledger.book(turn);
                }
            });
            threads[index].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        ledger.end();
        waiter.join();
        System.out.println(threads.length);
    }
}
