import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/**
 * Small servers: each thread makes passes until the time is up.
 * usage: Programs MODE THREADS SECONDS; prints the passes per second.
 */
public class Programs {
    static volatile boolean over;
    static final LongAdder passes = new LongAdder();
    static final Map<Integer, String> users = new HashMap<>();
    static final ArrayBlockingQueue<Integer> tasks = new ArrayBlockingQueue<>(8);

    /** A request looks a user up under one monitor, and waits 2 ms for the network. */
    static void lookup(int number) throws InterruptedException {
        synchronized (users) {
            users.merge(number, "user", (old, more) -> more);
        }
        Thread.sleep(2);
        passes.increment();
    }

    /** Workers of a queue that one thread fills; a task takes 3 ms. */
    static void task() throws InterruptedException {
        if (tasks.poll(100, TimeUnit.MILLISECONDS) != null) {
            Thread.sleep(3);
            passes.increment();
        }
    }

    static void fill() throws InterruptedException {
        while (!over) {
            tasks.offer(1, 100, TimeUnit.MILLISECONDS);
        }
    }

    interface Pass { void run() throws InterruptedException; }

    static Thread start(Pass pass) {
        Thread thread = new Thread(() -> {
            try {
                while (!over) pass.run();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        });
        thread.start();
        return thread;
    }

    public static void main(String[] arguments) throws InterruptedException {
        boolean isQueue = arguments[0].equals("task");
        Thread[] threads = new Thread[Integer.parseInt(arguments[1])];
        if (isQueue) start(Programs::fill);
        long begin = System.nanoTime();
        for (int number = 0; number < threads.length; number++) {
            int key = number;
            threads[number] = start(isQueue ? Programs::task : () -> lookup(key));
        }
        Thread.sleep((long) (1000 * Double.parseDouble(arguments[2])));
        over = true;
        for (Thread thread : threads) thread.join();
        System.out.println(passes.sum() * 1e9 / (System.nanoTime() - begin));
    }
}
