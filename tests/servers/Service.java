import java.util.HashMap;
import java.util.Map;

/** Eight threads that share one monitor, for the given number of seconds. */
public class Service {
    static final Object gate = new Object();
    static final Map<Integer, Integer> counts = new HashMap<>();
    static long sum;

    static void section(int number) {
        synchronized (gate) {
            for (int step = 0; step < 20_000; step++) {
                sum += step * 31L + number;
            }
            counts.merge(number & 1023, 1, Integer::sum);
        }
    }

    static void work(long end) {
        long own = 0;
        for (int number = 0; System.nanoTime() < end; number++) {
            section(number);
            for (int step = 0; step < 10_000; step++) {
                own += step ^ number;
            }
        }
        counts.get((int) own & 1023);
    }

    public static void main(String[] words) throws InterruptedException {
        long end = System.nanoTime() + Long.parseLong(words[0]) * 1_000_000_000L;
        Thread[] all = new Thread[8];
        for (int at = 0; at < all.length; at++) {
            all[at] = new Thread(() -> work(end), "worker-" + at);
            all[at].start();
        }
        for (Thread one : all) {
            one.join();
        }
        System.out.println(sum);
    }
}
